// Tenlines is a Gorgonia program, twice: tape.go is as such programs are, device.go the same on a device of this
// module. The difference is ten lines:
//
//	diff tape.go device.go
//
// The graph, in network.go, and Gorgonia's solver stay as they are. (With vm.Let in place of gorgonia.Let a batch may also
// be on the device already, where a dataloader.Loader puts it.) The program trains both on two moons, points on two
// half circles, and shows that the losses are the same.
package main

import (
	"fmt"
	"log"
	"time"
)

func main() {
	log.SetFlags(0)
	batches := moons(400, 64)
	for _, c := range []struct {
		name  string
		train func([]batch) ([]float64, error)
	}{{"tapeMachine", trainTape}, {"devicevm", trainDevice}} {
		begin := time.Now()
		losses, err := c.train(batches)
		if err != nil {
			log.Fatal(err)
		}
		took := time.Since(begin) / time.Duration(len(losses))
		fmt.Printf("%-12s loss %.6f -> %.6f, %v a step\n", c.name, losses[0], losses[len(losses)-1], took.Round(time.Microsecond))
	}
}
