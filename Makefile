# Two commands matter: `make demo` and `make test`. Both set up everything they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete

# Else every process of every test compiles what it imports anew, some third of its time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test test-slow soak check bench docs system clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Overnight needs Python 3.11 or newer; set PYTHON=…" >&2; exit 4; }
	@$(MAKE) --no-print-directory system
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

# bubblewrap isolates the experiments. As root it is installed, else the one command to run is printed.
system:
	@./tools/system-packages

demo: setup
	$(BIN)/overnight run examples/charlm --for 90s --workers 2

test: setup
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

# The escape suite through pytest, oracles, kills at random moments: some three minutes.
test-slow: setup
	$(BIN)/python -m pytest -m slow -n auto --maxprocesses 8 --dist worksteal

soak: setup
	$(BIN)/python -m pytest -m soak

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/docs_help.py --check

docs: setup
	$(BIN)/python tools/docs_help.py

bench: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@set -e; for file in benchmarks/*.py; do echo "== $$file" >&2; $(BIN)/python $$file; done

clean:
	rm -rf $(VENV) build src/*.egg-info .mypy_cache .ruff_cache .pytest_cache
