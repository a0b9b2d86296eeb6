# A fresh clone needs Python 3.11 or newer, and nothing else: `make demo`, `make test`.

PYTHON ?= python3
VENV = .venv
BIN = $(VENV)/bin
GPU_PYTHON ?= python3  # an environment with inferl, pytest and the torch build of the machine
PIP_INSTALL = $(BIN)/python -m pip install -qq --progress-bar off --disable-pip-version-check --no-compile -c constraints.txt
COMPILE = $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true  # what pip does on one core

# One stamp per set of extras, inside the environment, so that the commands work in any order.
DEMO_READY = $(VENV)/.ready-demo
TEST_READY = $(VENV)/.ready-test
TEST_ALL_READY = $(VENV)/.ready-test-all
BENCH_READY = $(VENV)/.ready-bench
VALIDITY_READY = $(VENV)/.ready-validity
DOCS_READY = $(VENV)/.ready-docs
ATARI_READY = $(VENV)/.ready-atari

APT_INSTALL = DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends

# Tests that need more than `make test` installs carry one of these markers.
MARKED = torch or atari or browser or docs or integrations or wheels

.DEFAULT_GOAL = help
.NOTPARALLEL:
.PHONY: bench test-gpu bench-gpu reproduce reproduce-quick pages validity browser redis operators docs sanitize fuzz crash soak mutants wheels try-wheels extras ci-local help demo test test-all lint types imports pytest format clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(DEMO_READY) ## install the package, run the demonstration
	$(BIN)/inferl demo

# Types and imports are checked while the tests run, and report after them.
test: lint ## all checks: lint, types, imports, tests
	@$(MAKE) --no-print-directory types imports >$(VENV)/checked.txt 2>&1 & checks=$$!; \
	trap 'kill $$checks; exit 130' INT TERM; \
	$(MAKE) --no-print-directory pytest; tests=$$?; \
	wait $$checks; checks=$$?; cat $(VENV)/checked.txt; \
	[ $$tests = 0 ] && [ $$checks = 0 ]

test-all: $(TEST_ALL_READY) browser redis operators ## the tests that need torch, atari, a browser, the built docs or other libraries (run `make test` first)
	$(BIN)/python -m pytest -q -rs -m "$(MARKED)"

docs: $(DOCS_READY) ## the documentation, as a web site in docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Chromium is no Python package. Without one, and without the right to install one, the tests in a browser are skipped.
browser:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	{ $(APT_INSTALL) chromium || { apt-get -q update && $(APT_INSTALL) chromium; }; } >/dev/null 2>&1 || \
	echo "browser: there is no Chromium, and it cannot be installed here; the tests in a browser will be skipped"

# Nor is a Redis server; the tests start servers of their own.
redis:
	@command -v redis-server >/dev/null || \
	{ $(APT_INSTALL) redis-server || { apt-get -q update && $(APT_INSTALL) redis-server; }; } >/dev/null 2>&1 || \
	echo "redis: there is no redis-server, and it cannot be installed here; the tests with Redis will be skipped"

# What those have who operate the service: promtool checks its alerts, systemd its unit, and debootstrap stands for Docker.
operators:
	@for name in promtool systemd-analyze debootstrap; do command -v $$name >/dev/null || missing=1; done; \
	[ -z "$$missing" ] || \
	{ $(APT_INSTALL) prometheus systemd debootstrap || { apt-get -q update && $(APT_INSTALL) prometheus systemd debootstrap; }; } \
	>/dev/null 2>&1 || \
	echo "operators: Debian's prometheus, systemd and debootstrap cannot be installed here; tests with them will be skipped"

lint: $(TEST_READY) ## formatting and lint rules (ruff)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(TEST_READY) ## static types (mypy --strict)
	$(BIN)/mypy

imports: $(TEST_READY) ## who may import whom (import-linter)
	$(BIN)/lint-imports

# Many tests start Python: what is imported is compiled once, even where a setting forbids to keep that.
pytest: export PYTHONDONTWRITEBYTECODE =
pytest: $(TEST_READY) ## tests, doctests, the examples of README.md and docs/
	INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not ($(MARKED))"

bench: $(BENCH_READY) ## speed and memory against what one would pick instead; a few minutes, writes docs/performance.md and README.md
	$(BIN)/python -m studies.benchmarks --output studies/benchmarks/results/engine.json --page docs/performance.md $(ARGUMENTS)
	$(BIN)/python -m studies.benchmarks --from studies/benchmarks/results/engine.json --page README.md
	$(BIN)/python -m studies.benchmarks.parts

test-gpu: ## the tests of the torch backend on a machine with a GPU and torch; writes studies/benchmarks/results/test_gpu.json
	$(GPU_PYTHON) -m studies.benchmarks.gpu_tests

bench-gpu: ## speed on a GPU against JAX and torch on the same one; writes studies/benchmarks/results/gpu.json
	$(GPU_PYTHON) -m studies.benchmarks.gpu --output studies/benchmarks/results/gpu.json

# What is measured and counted is written into the pages by the programs that read the result files; tests compare.
pages: $(TEST_READY) ## write what README.md and docs/ take from results and from the commands, without running a study
	$(BIN)/python -m studies.benchmarks --from studies/benchmarks/results/engine.json --page docs/performance.md
	$(BIN)/python -m studies.benchmarks --from studies/benchmarks/results/engine.json --page README.md
	$(BIN)/python -m studies.benchmarks.parts --from-results
	$(BIN)/python -m studies.paper.page
	$(BIN)/python -m studies.validity.page
	$(BIN)/python -m studies.shell
	$(BIN)/python -m studies.reliability.page
	$(BIN)/python -m release.extras --page
	$(BIN)/python -m studies.security

validity: $(VALIDITY_READY) ## where intervals may be trusted: the long coverage studies (about 6 hours), writes docs/validity.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.validity.value
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.validity.trust $(ARGUMENTS)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.validity.manyparts
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.validity.plans
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.validity.sidebyside
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.validity.drift
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.validity.returns
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.validity.returns_auto
	$(BIN)/python -m studies.validity.page

reproduce: $(TEST_READY) ## the experiments of the paper, on all cores: make reproduce EXPERIMENT=frozenlake ARGUMENTS=--quick
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m studies.paper $(or $(EXPERIMENT),frozenlake) $(ARGUMENTS)

reproduce-quick: $(ATARI_READY) ## all four experiments of the paper, small: a few minutes
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m studies.paper paper --quick $(ARGUMENTS)

format: $(TEST_READY) ## rewrite the files in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Two builds: the address sanitizer and the thread sanitizer exclude each other. Each counts the tests that passed.
sanitize: $(TEST_READY) ## the tests of the compiled kernel under the address, undefined-behaviour and thread sanitizers
	$(BIN)/python -m studies.reliability.sanitize $(ARGUMENTS)

# What .github/workflows runs, as far as one machine can.
ci-local: test test-all docs wheels try-wheels ## every step of the workflows that runs on one machine

# Campaigns print what they counted, keep it in studies/reliability/results/ and write docs/reliability.md.
# ARGUMENTS="--inputs 1000000" for a night, ARGUMENTS="--only fuzz_doors" for one of them.
fuzz: $(TEST_READY) ## damaged and forged inputs of all kinds, of which `make test` runs a short part
	INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.reliability fuzz $(ARGUMENTS)

crash: $(TEST_ALL_READY) redis ## kill and resume at random moments: streams, the service, drivers of plans
	$(BIN)/python -m studies.reliability crash $(ARGUMENTS)

soak: $(TEST_READY) ## memory at full rate for an hour: ARGUMENTS="--seconds 60" for a short one
	INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.reliability soak $(ARGUMENTS)

mutants: $(TEST_READY) ## mutation testing of the core: ARGUMENTS="--sample 50" for some of them
	$(BIN)/python -m studies.reliability mutants $(ARGUMENTS)

wheels: $(TEST_READY) ## sdist and wheels into dist/, with Zig as compiler for an old glibc
	$(BIN)/python -m release.wheels $(ARGUMENTS)

try-wheels: $(TEST_READY) ## install each wheel of dist/ where there is no compiler, and use it
	$(BIN)/python -m release.try_wheels $(ARGUMENTS)

extras: $(TEST_READY) ## what each extra brings, its size and licences: asks the registry, writes docs/extras.md
	$(BIN)/python -m release.extras

clean: ## remove the environment, builds and caches
	rm -rf $(VENV) $(VENV)-address $(VENV)-thread build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("inferl needs Python 3.11 or newer; name one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(DEMO_READY): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[plot]'
	@$(COMPILE)
	@touch $@

$(TEST_READY): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[test,lint,gym,plot]'
	@$(COMPILE)
	@touch $@

# torch by itself and first: asked for alone, a machine without a GPU takes the small build if it has one at hand.
$(TEST_ALL_READY): $(TEST_READY)
	$(PIP_INSTALL) torch
	$(PIP_INSTALL) -e '.[test-all]'
	@$(COMPILE)
	@touch $@

$(DOCS_READY): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[docs]'
	@$(COMPILE)
	@touch $@

$(ATARI_READY): $(TEST_READY)
	$(PIP_INSTALL) -e '.[atari]'
	@$(COMPILE)
	@touch $@

$(BENCH_READY): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[bench,data,gym,plot,report]'
	@$(COMPILE)
	@touch $@

$(VALIDITY_READY): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[validity]'
	@$(COMPILE)
	@touch $@
