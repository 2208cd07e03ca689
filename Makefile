PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
HASHES := hashes/runtime.txt hashes/server.txt hashes/dev.txt
STUBS := common/rpc/generated/outrider/v1

FRAMES ?= 1000000
MIX_SECONDS ?= 1800
PART ?= protocol
MUTATE_OPTIONS ?=
MUTMUT := build/mutmut
RESULTS ?= runs/results
RESULTS_OPTIONS ?=
GPU ?= runs/gpu
GPU_OPTIONS ?=

# Some containers keep Python from writing bytecode. Each process of the tests would compile our modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo wheel test lint audit fuzz mix mutate results gpu proto

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt $(HASHES)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name it with PYTHON=..." >&2; exit 1; }
	@echo "Installing into $(VENV). The first time this fetches large packages and takes some minutes."
	@test -x $(BIN)/python || { echo "1/4 Creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "2/4 Installing what Outrider and the tools for its tests need, each by its hash"
	@$(BIN)/python -m pip install --quiet --require-hashes --no-deps $(addprefix --requirement ,$(HASHES))
	@echo "3/4 Installing torch, by far the largest"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	@echo "4/4 Installing Outrider"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

demo: install
	$(BIN)/outrider demo

# Without what an earlier build left, which setuptools would take along.
wheel: install
	rm -rf build
	$(BIN)/python -m pip wheel --no-deps --no-build-isolation --wheel-dir dist .

# Four processes for two cores, for many tests wait; --no-loadscope-reorder keeps the order of tests/conftest.py;
# with bytecode kept, for each process would compile all modules.
test: install
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.audit

audit: install
	$(BIN)/python -m tests.audit

fuzz: install
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --frames $(FRAMES)

mix: install
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz.mix --seconds $(MIX_SECONDS)

# Hours for all mutants of PART, which is protocol, server or losses; minutes with MUTATE_OPTIONS="--sample 100".
mutate: install $(MUTMUT)
	OMP_NUM_THREADS=1 PYTHONPATH=$(CURDIR)/$(MUTMUT) $(BIN)/python -m tests.mutate $(PART) $(MUTATE_OPTIONS)

$(MUTMUT): hashes/mutation.txt
	rm -rf $@
	$(BIN)/python -m pip install --require-hashes --no-deps --target $@ --requirement $<

# Hours to days; interrupt it and call it again as often as you like. `outrider-lab results --help` says what some
# experiments need: RESULTS_OPTIONS="--data DIR --apps DIR --ablation DIR --seeds DIR".
results: install
	$(BIN)/outrider-lab results --out $(RESULTS) $(RESULTS_OPTIONS)

# On a machine with a GPU, 25 minutes; GPU_OPTIONS="--call-minutes 9" ends a call by then, and the next one goes on.
# GPU_OPTIONS=--rehearse does all of it in small on a CPU.
gpu: install
	$(BIN)/outrider-lab gpu --out $(GPU) $(GPU_OPTIONS)

proto: install
	$(BIN)/python -m grpc_tools.protoc -Icommon/rpc/generated=proto --python_out=. --pyi_out=. \
		--grpc_python_out=. $(STUBS)/outrider.proto
