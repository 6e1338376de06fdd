# make demo    environment, then the whole way from text to BLEU on a small corpus: build, train, tune, translate, evaluate
# make test    environment, then all tests but the slow ones and those that need Moses or a GPU
# make release-check   wheel and sdist, built, installed and tried in bare environments
# make docs    the pages and the reference of the library as a site, build/site/index.html; a broken link fails
# make check   formatting, lint, types, figures and commands of the pages: what continuous integration runs besides the tests
# make pages   write the tables and figures of README.md and docs/ from docs/results, and the reference of the commands
PYTHON ?= python3
VENV   ?= .venv
# TORCH_INDEX=https://download.pytorch.org/whl/cpu takes PyTorch without CUDA from there
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help demo test docs check pages format release-check speed clean

# Bare `make` prints the lines above and starts nothing.
help:
	@sed -n 's/^# \(make .*\)/\1/p' $(firstword $(MAKEFILE_LIST))

demo: $(READY)
	$(BIN)/python -m experiments.ablation demo --output demo

# A process for each core: each then computes with one thread. Tests of a file share theirs, and its fixtures: pytest 9.2
# ignores the groups of pytest-xdist 3.8 (pytest-dev/pytest-xdist#1386).
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

docs: $(READY)
	$(BIN)/mkdocs build --strict

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m experiments.pages --check

pages: $(READY)
	$(BIN)/python -m experiments.pages

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Wheel and sdist, each in an environment with nothing else.
release-check: $(READY)
	rm -rf dist build/release
	$(BIN)/python -m build --outdir dist .
	for made in dist/*.whl dist/*.tar.gz; do \
		rm -rf build/release && $(PYTHON) -m venv build/release && \
		build/release/bin/python -m pip install --quiet --constraint constraints.txt "$$made[smt]" && \
		sh tests/smoke.sh build/release/bin || exit 1; \
	done

speed: $(READY)
	$(BIN)/python -m experiments.speed

clean:
	rm -rf $(VENV) demo build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "phrasescore needs Python 3.11 or later")'
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || \
		{ echo "$(PYTHON) cannot create virtual environments; on Debian or Ubuntu type: apt install python3-venv" >&2; exit 1; }
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(if $(TORCH_INDEX),$(BIN)/python -m pip install --quiet --constraint constraints.txt --index-url $(TORCH_INDEX) torch)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@
