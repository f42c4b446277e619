package dataloader

import (
	"strings"
	"testing"

	"github.com/pintensor/pin/internal/leak"
)

func TestFromEnv(t *testing.T) {
	leak.Check(t)
	for _, test := range []struct {
		name        string
		env         string // NAME=value, separated by commas
		rank, world int
		want        string // an error with this text
	}{
		{name: "nothing", world: 1},
		{name: "torchrun", env: "RANK=3,WORLD_SIZE=8,LOCAL_RANK=1", rank: 3, world: 8},
		{name: "mpirun", env: "OMPI_COMM_WORLD_RANK=1,OMPI_COMM_WORLD_SIZE=2", rank: 1, world: 2},
		{name: "srun", env: "SLURM_PROCID=0,SLURM_NTASKS=4", rank: 0, world: 4},
		{name: "Kubernetes", env: "JOB_COMPLETION_INDEX=2,JOB_COMPLETIONS=3", rank: 2, world: 3},
		{name: "blanks", env: "RANK= 3 ,WORLD_SIZE=8\n", rank: 3, world: 8},
		{name: "emptied", env: "RANK=,WORLD_SIZE=,SLURM_PROCID=1,SLURM_NTASKS=4", rank: 1, world: 4},
		{name: "torchrun on each node of Slurm", env: "RANK=9,WORLD_SIZE=16,TORCHELASTIC_RUN_ID=x,SLURM_PROCID=1,SLURM_NTASKS=2", rank: 9, world: 16},
		{name: "torchrun ranks by arrival", env: "RANK=0,WORLD_SIZE=2,TORCHELASTIC_RUN_ID=x,SLURM_PROCID=1,SLURM_NTASKS=2", rank: 0, world: 2},
		{name: "RANK set from Slurm's", env: "RANK=1,WORLD_SIZE=2,SLURM_PROCID=1,SLURM_NTASKS=2", rank: 1, world: 2},
		{name: "mpirun in a job of Slurm", env: "OMPI_COMM_WORLD_RANK=3,OMPI_COMM_WORLD_SIZE=4,SLURM_PROCID=0,SLURM_NTASKS=8", rank: 3, world: 4},
		{name: "torchrun in a batch script", env: "RANK=3,WORLD_SIZE=4,TORCHELASTIC_RUN_ID=x,SLURM_PROCID=0", rank: 3, world: 4},
		{name: "torchrun in an indexed Job", env: "RANK=3,WORLD_SIZE=4,TORCHELASTIC_RUN_ID=x,JOB_COMPLETION_INDEX=1", rank: 3, world: 4},

		{name: "no size", env: "RANK=3", want: "RANK is set, but WORLD_SIZE is not: want both or neither (torchrun: "},
		{name: "no rank", env: "WORLD_SIZE=3", want: "WORLD_SIZE is set, but RANK is not"},
		{name: "half torchrun, whole Slurm", env: "WORLD_SIZE=3,SLURM_PROCID=1,SLURM_NTASKS=2", want: "WORLD_SIZE is set, but RANK is not"},
		{name: "batch script without srun", env: "SLURM_NTASKS=8", want: "start the program with srun"},
		{name: "no completions", env: "JOB_COMPLETION_INDEX=1", want: "set JOB_COMPLETIONS in the container's env to the Job's spec.completions"},
		{name: "no number", env: "RANK=one,WORLD_SIZE=8", want: `RANK = "one": want a whole number >= 0`},
		{name: "negative", env: "RANK=-1,WORLD_SIZE=8", want: `RANK = "-1": want a whole number >= 0`},
		{name: "no processes", env: "RANK=0,WORLD_SIZE=0", want: `WORLD_SIZE = "0": want a whole number >= 1`},
		{name: "rank too large", env: "SLURM_PROCID=4,SLURM_NTASKS=4", want: "SLURM_PROCID = 4 and SLURM_NTASKS = 4: want a number from 0 to 3"},
		{name: "left over", env: "RANK=0,WORLD_SIZE=1,SLURM_PROCID=3,SLURM_NTASKS=8",
			want: "RANK = 0 and WORLD_SIZE = 1, but SLURM_PROCID = 3 and SLURM_NTASKS = 8: want the same of both"},
		{name: "same size, other rank", env: "RANK=0,WORLD_SIZE=2,OMPI_COMM_WORLD_RANK=1,OMPI_COMM_WORLD_SIZE=2", want: "want the same of both"},
	} {
		env := make(map[string]string)
		for _, pair := range strings.Split(test.env, ",") {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value
		}
		rank, world, err := fromEnv(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
		switch {
		case test.want != "":
			if err == nil || !strings.HasPrefix(err.Error(), "dataloader: FromEnv: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: error %v, want %q", test.name, err, test.want)
			}
		case err != nil || rank != test.rank || world != test.world:
			t.Errorf("%s: %d of %d, %v, want %d of %d", test.name, rank, world, err, test.rank, test.world)
		}
	}
}

func TestFromEnvReadsTheEnvironment(t *testing.T) {
	leak.Check(t)
	for _, l := range launchers {
		t.Setenv(l.rank, "")
		t.Setenv(l.size, "")
	}
	t.Setenv("SLURM_PROCID", "2")
	t.Setenv("SLURM_NTASKS", "3")
	if rank, world, err := FromEnv(); rank != 2 || world != 3 || err != nil {
		t.Errorf("%d of %d, %v", rank, world, err)
	}
}
