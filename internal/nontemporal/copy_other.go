//go:build !amd64 || race

package nontemporal

// store is visible to the race detector, as what assembly writes is not.
func store(dst, src []byte) { copy(dst, src) }

func fence() {}
