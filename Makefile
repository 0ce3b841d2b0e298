# make demo   a result in one command        make test   lint, types and tests
#
# PYTHON=python3.12      the interpreter that creates the environment (3.11 or newer)
# VENV=.venv             where the environment lives
# TORCH_INDEX=URL        a further package index, for example the CPU build of torch:
#                        make demo TORCH_INDEX=https://download.pytorch.org/whl/cpu
# JOBS=2                 how many tests run at the same time: as many as there are cores, eight at
#                        most, unless given; 0 runs them one after another in one process

PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?=
JOBS ?= auto

BIN := $(VENV)/bin
CREATED := $(VENV)/.created
INSTALLED := $(VENV)/.installed
DEVELOPED := $(VENV)/.installed-dev

# Older pip reads PIP_CONSTRAINT for the build environment as well, newer pip PIP_BUILD_CONSTRAINT.
INSTALL = PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
	$(BIN)/python -m pip install --disable-pip-version-check \
	$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install develop demo test lint format typecheck docs clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

install: $(INSTALLED) ## create the environment and install the package, nothing else

develop: $(DEVELOPED) ## the same with the dev extra, which the tests need

demo: $(INSTALLED) ## install, then infer one simulated mixture: verdict, table and picture
	$(BIN)/slotflow demo

test: lint typecheck ## install with the dev extra, then lint, types and tests
	$(BIN)/python -m pytest --numprocesses $(JOBS) --maxprocesses 8 --dist worksteal

lint: $(DEVELOPED) ## ruff: rules and formatting, nothing is changed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(DEVELOPED) ## ruff: repair what can be repaired, then format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: $(DEVELOPED) ## mypy --strict on the package
	$(BIN)/mypy --strict

docs: $(DEVELOPED) ## build the documentation's site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## remove builds and caches; keeps .venv, runs/ and results/
	rm -rf build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## clean, and remove the environment too
	rm -rf $(VENV)

$(CREATED):
	@command -v $(PYTHON) >/dev/null || { \
		echo "error: $(PYTHON) was not found. Install Python 3.11 or newer, or name one:" \
			"make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: Python 3.11 or newer is needed, but $(PYTHON) is" \
			"$$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "error: $(PYTHON) cannot create virtual environments (no ensurepip)." \
			"On Debian or Ubuntu: apt install python3-venv. Then run make again." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(INSTALLED): $(CREATED) pyproject.toml constraints.txt
	$(INSTALL) -e .
	@touch $@

# The dev extra brings the run-time dependencies too, so the smaller stamp is set with it.
$(DEVELOPED): $(CREATED) pyproject.toml constraints.txt
	$(INSTALL) -e ".[dev]"
	@touch $(INSTALLED) $@
