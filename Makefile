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
# Options for examples/train_meta_l2c.py and for pytest.
ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip -qq install --constraint constraints.txt
PYTEST := OMP_NUM_THREADS=1 $(PY) -m pytest --numprocesses auto --maxprocesses 8
EXAMPLES := $(sort $(filter-out examples/_% examples/benchmark/_%,$(wildcard examples/*.py examples/benchmark/*.py)))

.PHONY: help setup scatter demo test check golden generate lint types doctest examples clean distclean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1  /p' Makefile | awk '{ $$2 = sprintf("%-10s", $$2); print "  " $$0 }'
	@echo "  ARGS='...' is passed on by demo and test; PYTHON=... names the interpreter that builds $(VENV)."
	@echo "  Without a GPU, PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu makes the download of PyTorch small."

setup: $(VENV)/.package ## build .venv, or what is missing of it
	@:

scatter: $(VENV)/.scatter ## add the optional torch-scatter, one more kernel for mixing (about 4 minutes, once)
	@:

demo: setup ## compare local, FedAvg, DPSGD, L2C and meta-L2C on handwritten digits
	@$(PY) examples/train_meta_l2c.py $(ARGS)

test: setup ## run the tests and the doctests, one process per core
	@$(PYTEST) -m "not slow" $(ARGS)

# torch-scatter is built here and not before: no other target uses it.
check: setup scatter ## run what takes longer than a person waits: tests marked slow, and those of torch-scatter's kernel
	@$(PYTEST) -m slow --timeout 2400 $(ARGS)
	@$(PYTEST) tests/ops/test_mixing.py

golden: setup ## record anew the results that tests/golden holds all methods to, and say what moved
	@OMP_NUM_THREADS=1 $(PY) -m tests.golden.record

generate: setup ## write exports, tables and docs/reference.md from what the code declares
	@$(PY) docs/generate.py

lint: setup ## check style and formatting
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

types: setup ## check the types of the package and of the examples
	@$(PY) -m mypy graphcollab $(EXAMPLES)

doctest: setup ## run the examples in the docstrings
	@$(PY) -m pytest graphcollab

# An example says how it runs here in comments of the form `# ci: --rounds 2 --seeds 1`, one run for each. $$OUT in them is a
# temporary folder. A bare `# ci:` is a run without arguments; an example without any such comment is an error.
examples: setup ## run every example on the small settings that its `# ci:` lines name
	@[ -n "$(EXAMPLES)" ] || { echo "there are no examples in examples/" >&2; exit 1; }
	@OUT=$$(mktemp -d); export OUT; trap 'rm -rf "$$OUT"' EXIT; \
	for example in $(EXAMPLES); do \
	  grep -Eq '^# ci:' "$$example" || \
	    { echo "$$example: expected a line '# ci: <arguments of a small run>', found none; add it below the docstring" >&2; exit 1; }; \
	  while read -r arguments; do \
	    echo "== $$example $$arguments"; \
	    eval "$(PY) $$example $$arguments" </dev/null || { echo "$$example $$arguments: failed" >&2; exit 1; }; \
	  done < <(sed -n 's/^# ci: *//p' "$$example"); \
	done

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

# PyTorch comes first and alone: what follows finds it installed, and torch-scatter's build imports it.
$(VENV)/.torch: $(VENV)/.created constraints.txt
	@echo "[setup 2/3] installing PyTorch (0.2 GB for CPUs, 3 GB with CUDA; minutes on a slow line)"
	@$(PIP) torch setuptools wheel; echo "            done after $$SECONDS s"
	@touch $@

$(VENV)/.package: $(VENV)/.torch pyproject.toml constraints.txt
	@echo "[setup 3/3] installing graphcollab and what it needs"
	@$(PIP) --no-build-isolation --editable '.[dev]'; echo "            done after $$SECONDS s"
	@touch $@

# Optional: without torch-scatter, mixing uses its CSR and dense kernels. A missing compiler is cheap to look for, so it leaves
# no stamp and is looked for again; a failed build costs minutes, so it does. pip may hold a wheel that it built against
# another PyTorch: a wheel that does not work is built again.
$(VENV)/.scatter: $(VENV)/.package
	@log=$(VENV)/scatter.log; : >$$log; \
	scatter=$$(sed -n '/^torch-scatter==/p' constraints.txt); \
	without="going on without torch-scatter (mixing uses its CSR and dense kernels instead)"; \
	say() { printf '%s\n' "$$@"; }; \
	install() { $(PIP) --no-build-isolation --no-deps "$$@" "$$scatter" >>$$log 2>&1; }; \
	works() { $(PY) -c 'import torch as t, torch_scatter as s; s.segment_csr(t.ones(2), t.tensor([0, 2]))' >>$$log 2>&1; }; \
	if ! works; then \
	  if ! command -v "$${CXX:-c++}" >/dev/null; then \
	    say "[scatter] no C++ compiler: $$without" "            to have it: install a compiler (Debian: g++), then make scatter"; exit 0; \
	  fi; \
	  if [ ! -e "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]; then \
	    say "[scatter] no Python.h: $$without" "            to have it: install it (Debian: python3-dev), then make scatter"; exit 0; \
	  fi; \
	  say "[scatter] building torch-scatter, once (about 4 minutes; a moment if pip has built it before)"; \
	  if install && { works || { install --force-reinstall --no-cache-dir && works; }; }; then \
	    say "            done after $$SECONDS s"; \
	  else \
	    $(PY) -m pip -qq uninstall --yes torch-scatter 2>/dev/null || true; \
	    say "            its build failed (see $$log): $$without" "            to try again: rm $(VENV)/.scatter && make scatter"; \
	  fi; \
	fi; \
	touch $@
