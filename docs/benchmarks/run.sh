#!/usr/bin/env bash
# Measures what docs/benchmarks.md shows: this module's benchmarks, and PyTorch's for the same work, in one go.
#
#     docs/benchmarks/run.sh OUT [PART...]      parts: train load gather copy pin tuning curves compile; all by
#                                               default. peers is for two GPUs, host for a machine without one
#
# OUT gets facts about the machine, a log of Go benchmarks for each part (*.bench), and what PyTorch printed (*.jsonl).
# `make plots LOGS=OUT` makes documents of it. All of it takes 7 minutes with a GPU. Without a GPU the software device
# is measured; without a PyTorch that sees a GPU there is nothing beside it. BENCHTIME (0.2s) is for each benchmark, TIMEOUT (90) in
# seconds for each step, LIMIT (600) for all; COMMIT says what is measured where there is no git, MNIST_DIR where MNIST's
# files are if they can't be downloaded.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/docs/benchmarks
[ $# -ge 1 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 2; }
mkdir -p "$1" && out=$(cd "$1" && pwd) || exit
shift
[ $# -gt 0 ] || set -- train load gather copy pin tuning curves compile # what matters most first, should there be no time for all
BENCHTIME=${BENCHTIME:-0.2s} TIMEOUT=${TIMEOUT:-90} LIMIT=${LIMIT:-600}
bin=$(mktemp -d) && trap 'rm -rf "$bin"' EXIT
cd "$root" || exit
archived='$Format:%h$' # git archive fills this in

# step FILE COMMAND...: appends what the command prints to FILE, and its errors to errors.log
step() {
	local file=$out/$1 begin=$SECONDS left=$((LIMIT - SECONDS))
	shift
	[ $left -ge 5 ] || { echo "NO TIME LEFT: ${*/#$bin\//}" | tee -a "$out/errors.log"; return; }
	timeout -k 5 $((left < TIMEOUT ? left : TIMEOUT)) "$@" >>"$file" 2>"$bin/stderr" || echo "FAILED ($?): ${*/#$bin\//}" | tee -a "$out/errors.log"
	[ ! -s "$bin/stderr" ] || { echo "== ${*/#$bin\//}"; tail -n 30 "$bin/stderr"; } >>"$out/errors.log"
	printf '%4ds  %s\n' $((SECONDS - begin)) "${*/#$bin\//}" | cut -c1-150
}

# binary PACKAGE: where the package's tests are built
binary() { echo "$bin/$(echo "$1" | tr -c 'a-z\n' _).test"; }

# bench PART PACKAGE PATTERN [TIME]: runs benchmarks, and logs the command that a reader would give
bench() {
	local part=$1 package=$2 pattern=$3 time=${4:-$BENCHTIME}
	local test=$(binary "$package")
	if [ $building ]; then
		[ -e "$test.log" ] || { touch "$test.log"; go test -c -o "$test" "$package" >"$test.log" 2>&1 & }
		return
	fi
	if [ ! -e "$test" ]; then
		{ echo "FAILED: go test -c $package"; cat "$test.log"; } | tee -a "$out/errors.log"
		return
	fi
	echo "# ${CUDA_CACHE_DISABLE:+CUDA_CACHE_DISABLE=1 }go test -run '^\$' -bench '$pattern' -benchtime $time $package" >>"$out/$part.bench"
	cd "$package" || return
	step "$part.bench" "$test" -test.run '^$' -test.bench "$pattern" -test.benchtime "$time"
	cd "$root" || exit
}

# peer PART SCRIPT ARGUMENT...: PyTorch's side
peer() {
	local part=$1
	shift
	[ -n "$python" ] && [ ! $building ] || return 0
	step "$part.jsonl" "$python" "$here/$@"
}

# curves: losses beside tapeMachine's, for 200 steps
curves() {
	local test=$(binary ./examples/mnist)
	bench curves ./examples/mnist '^$' # builds it
	[ ! $building ] || return 0
	rm -f "$out"/curve-*.csv "$out/curves.log"
	[ -x "$test" ] || return 0 # bench has said why
	cd examples/mnist || return
	step curves.log "$test" -test.run '^TestCurves$' -test.count 1 -curve "$bin" -curve-steps 200
	cd "$root" || exit
	for csv in "$bin"/curve-*.csv; do
		[ ! -e "$csv" ] || { echo "# go test ./examples/mnist -run '^TestCurves\$' -count 1 -args -curve DIR -curve-steps 200"; cat "$csv"; } >"$out/${csv##*/}"
	done
}

# example: trains on MNIST itself, for 3 epochs
example() {
	if [ $building ]; then
		go build -o "$bin/mnist" ./examples/mnist >"$bin/mnist.log" 2>&1 &
		return
	fi
	rm -f "$out/mnist.log"
	[ -x "$bin/mnist" ] || { { echo "FAILED: go build ./examples/mnist"; cat "$bin/mnist.log"; } | tee -a "$out/errors.log"; return; }
	for flags in '-model mlp -batch 64' '-model mlp -batch 256' '-model cnn -batch 64' '-model convnet -batch 64'; do
		command -v nvidia-smi >/dev/null || [ "$flags" != '-model convnet -batch 64' ] || continue # takes minutes without a GPU
		echo "# go run ./examples/mnist $flags -epochs 3" >>"$out/mnist.log"
		step mnist.log "$bin/mnist" $flags -epochs 3
	done
}

facts() {
	echo "date: $(date -u +%FT%RZ)"
	case $archived in *Format*) archived= ;; esac
	echo "commit: ${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo "${archived:-unknown}")}"
	git diff --quiet HEAD -- 2>/dev/null || [ ! -e .git ] || echo "changes: yes"
	echo "go: $(go env GOVERSION)"
	echo "os: $(uname -s) $(uname -r) $(uname -m)"
	echo "cpu: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -1)"
	echo "cores: $(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)"
	echo "memory: $(awk '/MemTotal/ {printf "%d GiB", $2 / 1048576 + 0.5}' /proc/meminfo 2>/dev/null)"
	echo "thp: $(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null)"
	if command -v nvidia-smi >/dev/null; then
		echo "gpu: $(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)"
		echo "gpus: $(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)"
		echo "driver: $(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)"
		echo "cuda: $(nvidia-smi | sed -n 's/.*CUDA Version: *\([0-9.]*\).*/\1/p' | head -1)"
		echo "pcie: $(nvidia-smi --query-gpu=pcie.link.gen.max,pcie.link.width.max --format=csv,noheader | head -1 | sed 's/, / x/')"
	fi
	echo "torch: $torch"
}

python=
torch=$(python3 -c 'import torch; torch.cuda.is_available() and print(torch.__version__)' 2>/dev/null) && [ -n "$torch" ] && python=python3
rm -f "$out/errors.log"
facts >"$out/machine.txt" 2>>"$out/errors.log"
for part in "$@"; do rm -f "$out/$part.bench" "$out/$part.jsonl"; done

measure() {
	case $1 in
	pin)
		bench pin . '^Benchmark(New|Empty|Pin)$'
		bench pin ./pintensor '^Benchmark(NewReleaseParallel|Buffer.*|Pin)$'
		bench pin ./pintensor '^BenchmarkPinLayout$/size=64MiB'
		bench pin ./pintensor '^BenchmarkWaste$' 20x
		peer pin torch_baseline.py pin
		peer pin torch_baseline.py cold
		[ -z "$python" ] || PYTORCH_CUDA_ALLOC_CONF=pinned_use_cuda_host_register:True,pinned_num_register_threads:8 \
			peer pin torch_baseline.py cold
		;;
	copy)
		bench copy . '^Benchmark(ToDevice|ToHost|ToDeviceIssue)$'
		bench copy . '^BenchmarkPattern$' 0.05s
		bench copy ./asynccopy '^Benchmark(Issue|Raw|OfRaw|BothWays|Batch|Overlap|ToDevice|ToHost)$'
		peer copy torch_baseline.py copy
		;;
	peers) # two GPUs
		bench peers ./asynccopy '^Benchmark(Peer|Devices)$'
		peer peers torch_baseline.py peer
		;;
	load)
		bench load . '^Benchmark(GatherLoop|Loader)$'
		bench load ./dataloader '^BenchmarkLoaderToDevice$/batch=(64|256|1024)$'
		bench load ./dataloader '^Benchmark(HandOver|Turn)$'
		bench load ./dataloader '^BenchmarkLoader$/./mode=gather$'
		bench load ./dataloader '^BenchmarkLoader$/./mode=loader$/workers=1$'
		peer load torch_baseline.py load
		export IMAGES_DIR=$bin/images # the same for both
		bench load ./dataloader/imagefolder '^BenchmarkLoader$/workers=(1|4|16)$' 1x
		peer load torch_images.py 4 16
		;;
	gather)
		bench gather . '^BenchmarkBesideGather$' 1s # medians, of some pairs
		bench gather ./dataloader '^BenchmarkBesideGather$' 1s
		;;
	host) # without a GPU
		bench host . '^BenchmarkGatherLoop$'
		bench host . '^BenchmarkLoader$/./dest=host/workers=(0|1|2|4)$'
		bench host ./dataloader '^BenchmarkLoader$'
		bench host ./dataloader '^Benchmark(HandOver|Turn)$'
		bench host ./dataloader/imagefolder '^BenchmarkLoader$/workers=(1|2|4)$'
		;;
	train)
		bench train . '^BenchmarkTrain$' 0.5s
		peer train torch_baseline.py train
		bench train ./devicevm '^BenchmarkStep$/model=(mlp|convnet)/./vm=tape$'
		bench train ./devicevm '^BenchmarkStep$/model=(mlp|convnet)/./vm=device/feed=batch/read=100$'
		CUDA_CACHE_DISABLE=1 bench train ./devicevm '^BenchmarkStart$/model=(mlp|convnet)$' 1x # as on a new machine
		example
		;;
	curves) curves ;;
	tuning) bench tuning ./dataloader '^BenchmarkTuning$' 0.1s ;;
	compile) peer compile torch_baseline.py compile ;;
	*)
		echo "run.sh: no part $1: train, load, gather, copy, pin, tuning, curves, compile, peers and host are expected" >&2
		exit 2
		;;
	esac
}

building=1
for part in "$@"; do measure "$part"; done
wait
building=
echo "built in $SECONDS s"
for part in "$@"; do measure "$part"; done
echo "$SECONDS s, logs in $out"
! grep -q '^FAILED\|^NO TIME' "$out/errors.log"
