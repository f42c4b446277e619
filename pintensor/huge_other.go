//go:build !linux

package pintensor

// adviseHuge does nothing: other systems choose huge pages themselves or don't offer them.
func adviseHuge([]byte) {}
