// Package devicevm trains and runs ordinary Gorgonia graphs on a device.
//
// [New] makes a gorgonia.VM of a graph that the user has built, and differentiated with gorgonia.Grad, in the usual
// way. It takes the place of NewTapeMachine:
//
//	tapeMachine                                    here
//	NewTapeMachine(g, BindDualValues(ws...))       New(g, dev), or New(g, dev, WithSolver(solver))
//	NewTapeMachine(g, EvalMode())                  New(g, dev, WithEval(), WithWeightsFrom(trainer))
//	Let(x, batch)                                  vm.Let(x, batch), or gorgonia.Let(x, batch)
//	vm.RunAll(); vm.Reset()                        vm.RunAll()
//	solver.Step(NodesToValueGrads(ws))             the same, or nothing: the VM runs the solver
//	w.Value()                                      the same; with WithSolver after vm.Sync() or Close
//	WithNaNWatch(), WithInfWatch()                 the same names
//
// The graph is read once. What neither the cost, nor the gradients that were asked for, nor a Read needs is not
// computed; what never changes is computed once; operations that only rename elements cost nothing; chains of
// operations on single elements are one step, or part of the product that they follow; intermediate results are in one
// block of memory. A VM gives the same bits in every run of a program.
//
// Operations that this package does not know run by themselves, on the host, so every graph runs;
// [VM.Fallbacks] lists them.
//
// # Inputs
//
// [VM.Let] takes host tensors and tensors that are on the device already, such as a loader's batches. Inputs can also
// be given their values by gorgonia.Let and gorgonia.WithValue, beside it; the later of the two counts. A value that
// is bound to a node in Gorgonia's way is copied to the device in every RunAll, since nothing else would notice
// that its owner has changed it. So Gorgonia's own solvers, which write to the weights between two runs, work as ever.
//
// # Results
//
// After RunAll, Node.Value has the values of what nothing else uses, of the cost, and of nodes named in [WithValues];
// Read has stored its variable; Node.Grad has the gradients, unless the VM runs the solver. Each is a copy on the
// host, overwritten by the next run: gradients do not add up from run to run as with tapeMachine, which comes to the
// same with a solver in between. [WithReadEvery] makes these copies rarer. [VM.Value] and [VM.Grad] give copies
// of the latest values at any time.
//
// # Running ahead
//
// On a GPU a run that copies nothing to the host is not waited for: RunAll returns when the run is issued, and the next
// one can be given its inputs. So a training is as fast as the GPU where its loop reads now and then: [WithReadEvery], or
// with a large number there, [VM.Value] of the cost when it is wanted. Inputs do not hold it up: tensors of the device,
// such as a loader's batches, are used where they are, and host values are copied by a stream of their own while the run
// before computes.
//
// A step is captured once for each set of addresses that its inputs have, as a CUDA graph in which operations wait for
// what they use, and run beside others.
//
// # Training on the device
//
// [WithSolver] makes each run end with a step of one of Gorgonia's solvers, with its options, on the device: SGD,
// momentum, RMSProp, Adam, AdamW. Weights then stay there; [VM.Sync] and Close bring them back to the nodes'
// own values. A VM for evaluation shares them through [WithWeightsFrom]. [VM.State] and [VM.Restore] save a training
// and resume it.
//
// # Gorgonia's mistakes
//
// Where Gorgonia v0.9.18 computes something wrong this package does not. [WithUpstreamBugs] makes it, by running
// Gorgonia's own code:
//
//   - The gradient of Dropout is divided by p in place of 1-p, and vanishes for kept elements that are 0.
//   - Batch normalisation's gradient when evaluating uses the batch's statistics.
//   - SoftMax subtracts the largest of a row's elements but its first, and the tensor's first: it overflows, or
//     loses everything, where rows differ much.
//   - The gradient of the SoftMax of a column vector is taken along the other axis.
//   - MaxPool2D with four paddings begins its patches by those for the end. A NaN in a patch is lost, and makes the
//     gradient panic if it is all there is.
//   - Sign of a scalar 0 is 1, of a tensor's 0 it is 0, as here always.
//   - The solver Momentum regularises by the momentum, not the weights, and forgets the momentum of scalars;
//     RMSProp does not clip the gradients of scalars. (With WithUpstreamBugs only the first is as there.)
//   - The solver AdamW changes no weight, having computed them by means that are not Adam's. Here it is that of the
//     paper, as in PyTorch. WithUpstreamBugs refuses it.
//
// What goes wrong when the graph is built, no VM can mend: SoftMax and LogSoftMax of one node, and Dropout of
// one node with two probabilities, are the same node, the first that was made. And log(SoftMax(x)) makes the SoftMax
// node unusable for anything else.
//
// # Ownership
//
// The graph and its values are the caller's. Inputs are never written to, but for weights, by Sync and Close, if
// the VM trains them. A VM owns its memory on the device; Close gives it back.
//
// # Concurrency
//
// The methods of a VM, and of VMs that share weights, exclude each other and may be called from any goroutine. The
// graph's nodes must not be used by others meanwhile.
//
// # Errors
//
// Bad arguments and bad graphs give errors that name the node, the value and what was expected; see the variables.
// An error of a node is a *[NodeError]. An operation that panics gives an error too. The VM is usable after an error,
// unless the device is lost. RunAll fails if the graph has grown since New.
//
// Half of what there is to know of a Gorgonia graph is in unexported fields. New checks that they are as this package
// knows them, and returns ErrIncompatible if not.
//
// # Platforms
//
// CUDA devices of compute capability 7.0 and newer, on Linux and Windows, with a driver for CUDA 11.0 or newer and no
// toolkit: kernels of this module's own, which the driver compiles for the device when they first run, and cuBLAS for
// large products where it is installed. With a driver for CUDA 11.4 or newer a step is one CUDA graph. Older devices are refused with
// ErrUnsupported.
//
// The software device, everywhere: it runs the graph on the host's cores, several times as fast as tapeMachine. Products of
// matrices are by kernels of its own where the processor has AVX2 and FMA, as those for amd64 since 2013 and 2017 have,
// else by gonum; or by the BLAS that gorgonia.Use has set, if any.
package devicevm
