# A fresh clone needs Python 3.11 or newer, and nothing else: `make demo`, `make test`.

PYTHON ?= python3
VENV = .venv
BIN = $(VENV)/bin
GPU_PYTHON ?= python3  # an environment with inferl, pytest and the torch build of the machine
PIP_INSTALL = $(BIN)/python -m pip install -qq --progress-bar off --disable-pip-version-check -c constraints.txt

# One stamp per set of extras, inside the environment, so that the commands work in any order.
DEMO_READY = $(VENV)/.ready-demo
TEST_READY = $(VENV)/.ready-test
TEST_ALL_READY = $(VENV)/.ready-test-all
BENCH_READY = $(VENV)/.ready-bench
VALIDITY_READY = $(VENV)/.ready-validity
DOCS_READY = $(VENV)/.ready-docs

APT_INSTALL = DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends

# Tests that need more than `make test` installs carry one of these markers.
MARKED = torch or atari or browser or docs or integrations

# Tests that go through the compiled kernel.
SANITIZED = tests/engine tests/algorithms tests/methods tests/variance tests/test_merging.py tests/test_evaluator.py

.DEFAULT_GOAL = help
.NOTPARALLEL:
.PHONY: bench test-gpu bench-gpu reproduce pages validity browser redis docs sanitize fuzz help demo test test-all lint types imports pytest format clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(DEMO_READY) ## install the package, run the demonstration
	$(BIN)/inferl demo

test: lint types imports pytest ## all checks: lint, types, imports, tests

test-all: $(TEST_ALL_READY) browser redis ## the tests that need torch, atari, a browser, the built docs or other libraries (run `make test` first)
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

lint: $(TEST_READY) ## formatting and lint rules (ruff)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(TEST_READY) ## static types (mypy --strict)
	$(BIN)/mypy

imports: $(TEST_READY) ## who may import whom (import-linter)
	$(BIN)/lint-imports

pytest: $(TEST_READY) ## tests, doctests, the examples of README.md and docs/
	INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m pytest -n 2 -q -m "not ($(MARKED))"

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

validity: $(VALIDITY_READY) ## where intervals may be trusted: the long coverage studies (about 5 hours), writes docs/validity.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.validity.value
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.validity.trust $(ARGUMENTS)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.validity.manyparts
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.validity.plans
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.validity.returns
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 INFERL_REQUIRE_NATIVE=1 $(BIN)/python -m studies.validity.returns_auto
	$(BIN)/python -m studies.validity.page

reproduce: $(TEST_READY) ## the experiments of the paper, on all cores: make reproduce EXPERIMENT=frozenlake ARGUMENTS=--quick
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m studies.paper $(or $(EXPERIMENT),frozenlake) $(ARGUMENTS)

format: $(TEST_READY) ## rewrite the files in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

sanitize: ## the tests of the compiled kernel under the address and undefined-behaviour sanitizers
	$(PYTHON) -m venv $(VENV)-sanitize
	$(VENV)-sanitize/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt \
		-C cmake.define.INFERL_SANITIZE=ON -e '.[test]'
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so.6)" ASAN_OPTIONS=detect_leaks=0 \
		UBSAN_OPTIONS=halt_on_error=1 PYTHONMALLOC=malloc INFERL_REQUIRE_NATIVE=1 \
		$(VENV)-sanitize/bin/python -m pytest -q -p no:cacheprovider -m "not ($(MARKED))" $(SANITIZED)

# Each prints what it counted; ARGUMENTS="--inputs 1000000" for a night.
fuzz: $(TEST_READY) ## damaged and forged inputs of all kinds: a long campaign, of which `make test` runs a short part
	for one in tests/fuzz_*.py; do INFERL_REQUIRE_NATIVE=1 $(BIN)/python $$one $(ARGUMENTS) || exit 1; done

clean: ## remove the environment, builds and caches
	rm -rf $(VENV) $(VENV)-sanitize build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("inferl needs Python 3.11 or newer; name one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(DEMO_READY): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[gym,plot]'
	@touch $@

$(TEST_READY): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[test,lint,gym,plot]'
	@touch $@

# torch by itself and first: asked for alone, a machine without a GPU takes the small build if it has one at hand.
$(TEST_ALL_READY): $(TEST_READY)
	$(PIP_INSTALL) torch
	$(PIP_INSTALL) -e '.[test-all]'
	@touch $@

$(DOCS_READY): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[docs]'
	@touch $@

$(BENCH_READY): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[bench,data,gym,plot,report]'
	@touch $@

$(VALIDITY_READY): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[validity]'
	@touch $@
