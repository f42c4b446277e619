//go:build race

package pintensor

const raceEnabled = true
