# `make help` lists the targets. Everything runs in .venv, which `make setup` builds and every other target completes.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

# Pictures are written to files; no window is opened.
export MPLBACKEND := Agg
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

# The interpreter that builds .venv: python3.11 where there is one, else python3. `make setup PYTHON=...` names another.
PYTHON ?=
# Options for examples/train_meta_l2c.py, for pytest, for examples/benchmark/gpu.py, and for tests/golden/record.py.
ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip -qq install --constraint constraints.txt
PYTEST := OMP_NUM_THREADS=1 $(PY) -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal
EXAMPLES := $(sort $(filter-out examples/_% examples/benchmark/_%,$(wildcard examples/*.py examples/benchmark/*.py)))

.PHONY: help setup demo test check nightly gpu golden messages size generate docs lint types doctest examples clean distclean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1  /p' Makefile | awk '{ $$2 = sprintf("%-10s", $$2); print "  " $$0 }'
	@echo "  ARGS='...' is passed on by demo, test, gpu and golden; PYTHON=... names the interpreter that builds $(VENV)."
	@echo "  Without a GPU, PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu makes the download of PyTorch small."

setup: $(VENV)/.package ## build .venv, or what is missing of it
	@:

demo: setup ## compare local, FedAvg, DPSGD, L2C and meta-L2C on handwritten digits
	@$(PY) examples/train_meta_l2c.py $(ARGS)

test: setup ## run the tests and the doctests, one process per core
	@$(PYTEST) -m "not slow" $(ARGS)

check: setup $(VENV)/.triton ## run what takes longer than a person waits: tests marked slow
	@$(PYTEST) -m "slow and not nightly" --timeout 2400 $(ARGS)

nightly: setup $(VENV)/.triton ## run the slow tests that take minutes, or repeat others for every method
	@$(PYTEST) -m nightly --timeout 2400 $(ARGS)

gpu: setup ## check and measure what there is for a GPU, and say which goals are met; ARGS='--only mixing': a part of it
	@$(PY) examples/benchmark/gpu.py --json build/gpu.json $(ARGS)

golden: setup ## record what tests/golden lacks; ARGS=pfedsim or ARGS=--all: record that anew, and say what moved
	@OMP_NUM_THREADS=1 $(PY) -m tests.golden.record $(ARGS)

messages: setup ## write tests/messages.txt, the wording of all errors and warnings
	@$(PY) -m tests.messages

size: setup ## count lines of the package and the tests, exported names and dependencies
	@$(PY) docs/size.py

generate: setup ## write exports, tables and docs/reference.md from what the code declares
	@$(PY) docs/generate.py

docs: setup ## build the documentation site in build/docs
	@$(PY) docs/site/build.py

lint: setup ## check style and formatting
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

types: setup ## check the types of the package and of the examples
	@$(PY) -m mypy graphcollab $(EXAMPLES)

doctest: setup ## run the examples in the docstrings
	@$(PY) -m pytest graphcollab

# An example says how it runs here in comments of the form `# ci: --rounds 2 --seeds 1`, one run for each. $$OUT in them is a
# temporary folder. A bare `# ci:` is a run without arguments; an example without any such comment is an error.
examples: setup ## run every example on the small settings that its `# ci:` lines name, one process per core
	@[ -n "$(EXAMPLES)" ] || { echo "there are no examples in examples/" >&2; exit 1; }
	@OUT=$$(mktemp -d); export OUT; trap 'rm -rf "$$OUT"' EXIT; \
	run() { \
	  grep -q '^# ci:' "$$1" || \
	    { echo "$$1: expected a line '# ci: <arguments of a small run>', found none; add it below the docstring"; return 1; }; \
	  while read -r arguments; do \
	    echo "== $$1 $$arguments"; \
	    eval "$(PY) $$1 $$arguments" </dev/null || { echo "$$1 $$arguments: failed"; return 1; }; \
	  done < <(sed -n 's/^# ci: *//p' "$$1"); \
	}; \
	print() { log="$$OUT/$$(basename "$$1").log"; run "$$1" >"$$log" 2>&1 && cat "$$log" || { cat "$$log" >&2; exit 255; }; }; \
	export -f run print; \
	printf '%s\n' $(EXAMPLES) | \
	  OMP_NUM_THREADS=1 xargs -n 1 -P $$($(PY) -c 'import os; print(os.cpu_count())') $(SHELL) -c 'print "$$1"' _

clean: ## remove caches and build outputs
	@rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find graphcollab tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove .venv as well
	@rm -rf $(VENV)

# Set-up. Each step leaves a stamp once it has ended well, so that an interrupted one is repeated and a finished one is not.

$(VENV)/.created:
	@python=; \
	for candidate in $(or $(PYTHON),python3.11 python3); do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "graphcollab needs Python 3.11 or newer; found $$($(or $(PYTHON),python3) --version 2>&1 || true)." >&2; \
	  echo "Install one, or name it: make setup PYTHON=/path/to/python3.11" >&2; exit 1; \
	fi; \
	echo "[setup 1/3] creating $(VENV) with $$("$$python" --version)"; \
	"$$python" -m venv $(VENV)
	@touch $@

# PyTorch comes first and alone: what follows finds it installed.
$(VENV)/.torch: $(VENV)/.created constraints.txt
	@echo "[setup 2/3] installing PyTorch (0.2 GB for CPUs, 3 GB with CUDA; minutes on a slow line)"
	@$(PIP) torch setuptools wheel; echo "            done after $$SECONDS s"
	@touch $@

$(VENV)/.package: $(VENV)/.torch pyproject.toml constraints.txt $(wildcard graphcollab/*/_*.[ch] graphcollab/*/*/_*.[ch])
	@echo "[setup 3/3] installing graphcollab and what it needs"
	@$(PIP) --no-build-isolation --editable '.[dev]'; echo "            done after $$SECONDS s"
	@touch $@

# For the tests of kernels for GPUs, which run without one. PyTorch's builds for GPUs bring a Triton of their own.
$(VENV)/.triton: $(VENV)/.package
	@$(PY) -c 'import triton' 2>/dev/null || [ "$$(uname -sm)" != 'Linux x86_64' ] || \
	  { $(PIP) --no-deps triton==3.6.0; echo "[check] installed Triton (0.6 GB) after $$SECONDS s"; }
	@touch $@
