PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
HASHES := hashes/runtime.txt hashes/dev.txt
STUBS := common/rpc/generated/outrider/v1

FRAMES ?= 1000000
MIX_SECONDS ?= 1800

.PHONY: install demo test lint audit fuzz mix proto

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt $(HASHES)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name it with PYTHON=..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps $(addprefix --requirement ,$(HASHES))
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

demo: install
	$(BIN)/outrider demo

# One process more than the two cores that there are at least, for many tests wait; in the order of folders, so that the
# longest files do not come last.
test: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

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

proto: install
	$(BIN)/python -m grpc_tools.protoc -Icommon/rpc/generated=proto --python_out=. --pyi_out=. \
		--grpc_python_out=. $(STUBS)/outrider.proto
