//go:build race || invariants

package pintensor

// invariants builds, also those of the race detector, check the package's own bookkeeping and poison
// released memory, whatever the options say.
const invariants = true
