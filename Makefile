# make demo    environment, then the main job on the mini corpus: train, annotate, check
# make test    environment, then all tests but the slow ones and those that need Moses or a GPU
# make check   formatting, lint, types: what continuous integration runs besides the tests
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test check format speed clean

demo: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" experiments/demo.sh

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

speed: $(READY)
	$(BIN)/python -m experiments.speed

clean:
	rm -rf $(VENV) demo build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "phrasescore needs Python 3.11 or later")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@
