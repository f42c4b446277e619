package dataloader

// This process's number among several, from what started it.

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// launcher is what sets environment variables with a process's number and how many there are.
type launcher struct {
	name       string
	rank, size string // the variables
	hint       string // for when one of them is missing
}

// launchers in the order in which they are found inside one another: torchrun is started by Slurm on each
// node, Open MPI's mpirun runs in a job of Slurm, and all of them may run in a container of Kubernetes. The
// variables of the outer ones, which count nodes or jobs then, are still there.
var launchers = []launcher{
	{"torchrun", "RANK", "WORLD_SIZE", "start the program with torchrun, or set both"},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "start the program with mpirun"},
	{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "start the program with srun, and the number of tasks given"},
	{"Kubernetes", "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS",
		"Kubernetes sets the first; set JOB_COMPLETIONS in the container's env to the Job's spec.completions"},
}

// torchrunID is set by torchrun besides RANK and WORLD_SIZE, which anybody may set.
const torchrunID = "TORCHELASTIC_RUN_ID"

// FromEnv returns [Config.Rank] and [Config.WorldSize] as the environment gives them: from RANK and
// WORLD_SIZE (torchrun, and launchers that set the same), OMPI_COMM_WORLD_RANK and _SIZE (Open MPI's mpirun),
// SLURM_PROCID and SLURM_NTASKS (srun), or JOB_COMPLETION_INDEX (an indexed Job of Kubernetes) and
// JOB_COMPLETIONS, which the Job's template must set, as Kubernetes tells a container only its index.
// Where several have set theirs the first of this list counts, being the innermost. With none, this is the
// only process: 0 and 1.
//
// It is an error, that names the variables, if one of a pair is missing, is not a number, or does not
// fit the other: training on a wrong share of the data would show nowhere. So is a RANK and WORLD_SIZE that
// torchrun has not set (it also sets TORCHELASTIC_RUN_ID), and that differ from what another launcher says.
func FromEnv() (rank, worldSize int, err error) {
	return fromEnv(os.LookupEnv)
}

func fromEnv(lookup func(string) (string, bool)) (rank, worldSize int, err error) {
	worldSize = 1
	var by *launcher // whose values those are
	for i := range launchers {
		l := &launchers[i]
		r, n, found, err := l.read(lookup)
		switch {
		case err != nil && by == nil:
			return 0, 0, fmt.Errorf("dataloader: FromEnv: %w", err)
		case err != nil || !found:
			// What an outer launcher has left incomplete does not matter to a process that an inner one started.
		case by == nil:
			rank, worldSize, by = r, n, l
		case by.rank == "RANK" && !isSet(lookup, torchrunID) && (r != rank || n != worldSize):
			return 0, 0, fmt.Errorf("dataloader: FromEnv: %s = %d and %s = %d, but %s = %d and %s = %d: want the same of both, "+
				"unless torchrun has set the first two (%s is not set): unset the pair that does not apply",
				by.rank, rank, by.size, worldSize, l.rank, r, l.size, n, torchrunID)
		}
	}
	return rank, worldSize, nil
}

// read returns what the launcher has set, if it has.
func (l *launcher) read(lookup func(string) (string, bool)) (rank, size int, found bool, err error) {
	hasRank, hasSize := isSet(lookup, l.rank), isSet(lookup, l.size)
	switch {
	case !hasRank && !hasSize:
		return 0, 0, false, nil
	case !hasRank:
		return 0, 0, false, fmt.Errorf("%s is set, but %s is not: want both or neither (%s: %s)", l.size, l.rank, l.name, l.hint)
	case !hasSize:
		return 0, 0, false, fmt.Errorf("%s is set, but %s is not: want both or neither (%s: %s)", l.rank, l.size, l.name, l.hint)
	}
	if rank, err = number(lookup, l.rank, 0); err != nil {
		return 0, 0, false, err
	}
	if size, err = number(lookup, l.size, 1); err != nil {
		return 0, 0, false, err
	}
	if rank >= size {
		return 0, 0, false, fmt.Errorf("%s = %d and %s = %d: want a number from 0 to %d", l.rank, rank, l.size, size, size-1)
	}
	return rank, size, true, nil
}

// isSet reports whether a variable has a value. An empty one is as good as none: that is how scripts unset them.
func isSet(lookup func(string) (string, bool), name string) bool {
	value, ok := lookup(name)
	return ok && strings.TrimSpace(value) != ""
}

func number(lookup func(string) (string, bool), name string, least int) (int, error) {
	text, _ := lookup(name)
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < least {
		return 0, fmt.Errorf("%s = %q: want a whole number >= %d", name, text, least)
	}
	return n, nil
}
