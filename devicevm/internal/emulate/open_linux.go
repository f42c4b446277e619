package emulate

import "github.com/ebitengine/purego"

// open loads the compiled kernels.
func (l *Library) open(object string) error {
	handle, err := purego.Dlopen(object, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return err
	}
	purego.RegisterLibFunc(&l.run, handle, "emulate")
	purego.RegisterLibFunc(&l.size, handle, "size")
	return nil
}
