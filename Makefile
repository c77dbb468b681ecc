# make demo      set-up (virtual environment and package: 2 minutes), then a first look: 1 minute
# make test      the same set-up, then every check that CI runs: 5 minutes on two cores
# make long      the tests that take longer than that
# make spark     the tests of the Spark engine alone, all of them
# make check-all the tool hurt on purpose, for hours (ONLY=kills,disks for some); docs/reliability.md
# make results   the tables of docs/results.md and README.md, from results/
# make clean     removes the virtual environment and runs/

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test types unit browser java long spark check-all results clean

demo: $(READY)
	$(BIN)/spare demo

test: $(READY) browser java
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target types unit

# The type checker has one process, and the tests often wait: together they take less time.
types: $(READY)
	$(BIN)/mypy

unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# Reports are tested in a real browser; where there is none to install, those tests are skipped.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
		{ apt-get update -qq && apt-get install -y -qq chromium; } >/dev/null 2>&1 || \
		echo "chromium is missing and could not be installed: the tests that need it are skipped"

# Spark is tested where there is Java; where it, or pyspark, cannot be installed, those are skipped.
java: $(READY)
	@command -v java >/dev/null || \
		{ apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless; } >/dev/null 2>&1 || \
		echo "Java is missing and could not be installed: the tests that need it are skipped"
	@! command -v java >/dev/null || $(BIN)/python -c 'import pyspark' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark]' || \
		echo "pyspark could not be installed: the tests that need it are skipped"

long: $(READY)
	$(BIN)/python -m pytest -m long

spark: java
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "long or not long" -rs tests/engines/test_spark.py

# atheris has wheels for few versions of Python: without it, only the fuzzing fails.
check-all: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group fuzz || true
	$(BIN)/python -m campaign $(if $(ONLY),--only $(ONLY))

results: $(READY)
	$(BIN)/python docs/make_results.py

# One command installs everything, so that pip picks versions of torch and torchvision that match.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed; choose one with: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	touch $(READY)

clean:
	rm -rf $(VENV) runs
