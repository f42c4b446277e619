package devicevm

// Launches returns how many kernels, products, copies and fills a step of a VM on a GPU is, 0 before its first and on
// the software device. A product by cuBLAS may be two kernels.
func (vm *VM) Launches() int {
	if vm == nil {
		return 0
	}
	m, ok := vm.machine.(*gpuMachine)
	if !ok || len(m.codes) == 0 {
		return 0
	}
	return m.codes[0].code.Launches()
}
