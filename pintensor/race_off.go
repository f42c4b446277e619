//go:build !race

package pintensor

const raceEnabled = false
