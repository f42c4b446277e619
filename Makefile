# Everything here needs Go alone, except where the line's description says otherwise.
GO        ?= go
FUZZTIME  ?= 5000x
BENCH     ?= .
SOAK      ?= 60s
BENCHTIME ?= 0.5s
LOGS      ?=
NAME      ?= h200
ARGS      ?=
CUDA_HOME ?= /usr/local/cuda
TOOL       = $(GO) tool -modfile=tools.mod
# The race detector needs cgo, and so a C compiler; go sets CGO_ENABLED=0 by itself where it finds none.
CGO        = $$($(GO) env CGO_ENABLED)

# The kernels are compiled by this clang, no other, so that the PTX can be compared with its source.
CLANG      = clang-14
KERNELS    = devicevm/internal/kernels
PTX        = $(CLANG) -x cuda --cuda-device-only --cuda-gpu-arch=sm_70 -nocudainc -nocudalib -O3 \
	-Xclang -target-feature -Xclang +ptx70 -S $(KERNELS)/src/kernels.cu

.PHONY: help mnist test check check-docs plots unit race nocgo invariants fuzz cross once accuracy ptx check-ptx soak cuda-env cuda-test bench

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

mnist: ## train on MNIST (ARGS="-model cnn -epochs 3" passes flags)
	$(GO) run ./examples/mnist $(ARGS)

test: check check-ptx unit race nocgo invariants fuzz cross once accuracy ## all that CI runs
	@if [ "$(CGO)" = 1 ]; then echo "all passed"; else echo "all passed, but for race, which was NOT RUN: there is no C compiler"; fi
	@command -v $(CLANG) >/dev/null || echo "check-ptx was NOT RUN: there is no $(CLANG)"
	@[ "$(shell uname -s)" != Linux ] || ldconfig -p 2>/dev/null | grep -q libturbojpeg.so || echo "the tests of package turbojpeg were NOT RUN: there is no libturbojpeg"
	@command -v g++ >/dev/null || command -v clang++ >/dev/null || command -v c++ >/dev/null || echo "the tests of the CUDA kernels on the host were NOT RUN: there is no C++ compiler"

check: ## gofmt, go vet, staticcheck, go.mod tidiness, check-docs
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not gofmt-ed:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(GO) mod tidy -diff
	@$(MAKE) --no-print-directory check-docs

# docs/plot is a module of its own, so that what it draws with is no dependency of this one.
check-docs: ## see that tables and plots in the documents are what the logs of measurements give
	cd docs/plot && $(GO) vet . && $(GO) tool -modfile=../../tools.mod staticcheck . && $(GO) mod tidy -diff && $(GO) test . && $(GO) run . -check

plots: ## take logs of docs/benchmarks/run.sh over (LOGS=folder, NAME=h200), and write tables and plots
	cd docs/plot && $(GO) run . $(if $(LOGS),-import '$(abspath $(LOGS))' -name '$(NAME)')

unit: ## the tests
	$(GO) test -timeout 5m ./...

race: ## the tests under the race detector (needs a C compiler)
	@if [ "$(CGO)" = 1 ]; then echo $(GO) test -race -timeout 10m ./...; $(GO) test -race -timeout 10m ./...; \
	elif [ -n "$$CI" ]; then echo "race: no C compiler"; exit 1; \
	else echo "race: NOT RUN: the race detector needs a C compiler, and there is none"; fi

nocgo: ## the tests without cgo
	CGO_ENABLED=0 $(GO) test -timeout 5m ./...

invariants: ## the tests with internal consistency checks, which pintensor has
	$(GO) test -tags invariants -timeout 5m ./pintensor/... ./asynccopy ./dataloader

# Counted, not timed: with a time Go before 1.27 fails now and then when it is over (golang/go#75804).
fuzz: ## FUZZTIME (5000x) inputs for each fuzz target
	@for pkg in $$($(GO) list ./...); do \
		targets=$$($(GO) test -list '^Fuzz' $$pkg) || exit 1; \
		for target in $$(echo "$$targets" | grep '^Fuzz'); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x $$pkg || exit 1; \
		done; \
	done

cross: ## builds for other systems
	GOOS=windows GOARCH=amd64 $(GO) build ./...
	GOOS=darwin GOARCH=arm64 $(GO) build ./...
	GOOS=linux GOARCH=arm64 $(GO) build ./...

once: ## each benchmark once, to see that it works
	@$(MAKE) --no-print-directory bench BENCHTIME=1x
	$(GO) test -run '^$$' -bench . -benchtime 1x ./asynccopy/... ./dataloader/... ./devicevm/... ./internal/... ./pintensor/...

accuracy: ## train an MLP and a small CNN on MNIST and check the accuracy
	@for args in "" "-model cnn -epochs 1"; do \
		out=$$($(MAKE) --no-print-directory mnist ARGS="$$args") || exit 1; echo "$$out"; \
		echo "$$out" | awk '/test accuracy/ {last = $$NF + 0} END {if (last < 96) {print "accuracy: " last "% < 96%"; exit 1}}' || exit 1; \
	done

ptx: ## compile the CUDA kernels (needs clang-14, no toolkit)
	$(PTX) -o $(KERNELS)/kernels.ptx

check-ptx: ## see that the committed PTX is what its source gives (needs clang-14)
	@if command -v $(CLANG) >/dev/null; then echo check-ptx; $(PTX) -o - | diff -q - $(KERNELS)/kernels.ptx || { echo "check-ptx: $(KERNELS)/kernels.ptx is not its source's: run make ptx"; exit 1; }; \
	elif [ -n "$$CI" ]; then echo "check-ptx: no $(CLANG)"; exit 1; \
	else echo "check-ptx: NOT RUN: there is no $(CLANG)"; fi

soak: ## 64 goroutines do everything with pinned memory and devices for SOAK (60s); ARGS=-race finds races too
	SOAK=$(SOAK) $(GO) test -run '^TestSoak$$' -count 1 -v -timeout 0 $(ARGS) ./pintensor ./asynccopy

cuda-env: ## print the cgo flags for gorgonia.org/cu, see cuda13/README.md (CUDA_HOME=/usr/local/cuda)
	@echo "export CGO_CFLAGS='-I$(CURDIR)/cuda13 -I$(CUDA_HOME)/include'"
	@echo "export CGO_LDFLAGS='-L$(CUDA_HOME)/lib64 -L$(CUDA_HOME)/lib64/stubs'"

cuda-test: ## the tests with gorgonia.org/cu, and its benchmarks (needs a GPU and a toolkit)
	eval "$$($(MAKE) -s cuda-env)" && REQUIRE_GPU=1 $(GO) test -tags cuda -count 1 -timeout 5m ./asynccopy
	eval "$$($(MAKE) -s cuda-env)" && $(GO) test -tags cuda -run '^$$' -bench 'CU|Overlap|Trace' ./asynccopy

bench: ## benchmarks on whatever device is there (BENCH=ToDevice picks some)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) .
