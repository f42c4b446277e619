//go:build !race && !invariants

package pintensor

const invariants = false
