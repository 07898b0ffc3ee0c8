# Everything a developer runs. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Containers often set it. Without bytecode, each of the thousands of processes that tests start compiles all modules again,
# and each worker of pytest rewrites the asserts of all tests.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
VENV_SPARK4 := .venv-spark4
BIN := $(VENV)/bin

# The first interpreter that can make the environments. 3.11 comes first because it is the one that PySpark 3.5
# supports officially (docs/compatibility.md). `make PYTHON=…` overrides it.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
	&& echo $$python && break; done)

# Locked versions with hashes, each dependency among them, so pip has none to look for; then the project itself. Python compiles
# the modules that are imported, a small part, when it first does so.
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-deps --no-compile

define install_locked
@test -n "$(PYTHON)" || { echo "no Python 3.11-3.13 with venv found: install one, or name it with PYTHON=…" >&2; exit 2; }
@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
@$(1)/bin/python $(PIP_INSTALL) --require-hashes -r $(2)
@$(1)/bin/python $(PIP_INSTALL) --no-build-isolation -e .
@touch $@
endef

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: install
install: $(VENV)/.dev ## Make .venv with everything that development and tests need

$(VENV)/.runtime: requirements/runtime.lock pyproject.toml
	@echo "installing rli with PySpark 3.5 into $(VENV)"
	$(call install_locked,$(VENV),requirements/runtime.lock)

$(VENV)/.dev: requirements/dev.lock $(VENV)/.runtime $(wildcard examples/*/*.py)
	@echo "installing the tools for development and tests into $(VENV)"
	@$(BIN)/python $(PIP_INSTALL) --no-build-isolation ./examples/rli_sqlite
	$(call install_locked,$(VENV),requirements/dev.lock)

$(VENV_SPARK4)/.done: requirements/spark4.lock pyproject.toml
	@echo "installing rli with PySpark 4 into $(VENV_SPARK4)"
	$(call install_locked,$(VENV_SPARK4),requirements/spark4.lock)

.PHONY: demo
demo: $(VENV)/.runtime ## Run the quick start: real data, upserts, moves, look-ups, verification
	@$(BIN)/rli demo

# Files side by side, the tests of a file one after the other, and those that share a slow server (tests/support/sharing.py).
# Five processes for two cores: tests of servers, leases and kills wait for half of their time.
IN_PARALLEL := -n 5 --dist loadfile

# These only compute.
QUICK_TESTS := -n 2 --dist loadfile -m "not spark and not hudi and not docker and not crash and not slow" \
	tests/index tests/unit

# The cases that the tests take in turn (tests/support/turns.py): other ones for each commit. `TURN=all`: all cases, in twice the time.
TURN ?= $(if $(PYTEST_ARGS),all,$(shell git rev-parse --short=8 HEAD 2>/dev/null || echo 0))

# Before `make test`, to have it beside something else.
.PHONY: prepared
prepared: $(VENV)/.dev $(VENV_SPARK4)/.done ## Make the environments and images of the tests, fetch Hudi, archive Spark's classes
	$(BIN)/python -m tests.support.prepared
	@# Rewrites the asserts of all tests. Without it, each process of pytest does that at its start.
	$(BIN)/python -m pytest --collect-only --quiet >/dev/null
	$(BIN)/python -m tests.support.spark_classes
	$(VENV_SPARK4)/bin/python -m tests.support.spark_classes

.PHONY: test
test: $(VENV)/.dev $(VENV_SPARK4)/.done ## Run all tests: on PySpark 3.5, and the Spark part on PySpark 4 beside them
	@$(MAKE) --no-print-directory --jobs=2 spark35-lane spark4-lane

.PHONY: spark35-lane
spark35-lane: $(VENV)/.dev
	RLI_TURN=$(TURN) $(BIN)/python -m pytest $(IN_PARALLEL) $(PYTEST_ARGS)

# The folders with tests of Spark and without Hudi: other folders would be collected for nothing.
SPARK4_TESTS := tests/docs tests/spark

# One process and one JVM, for what the others leave idle. It shows its output when it has ended: two at once are hard to read.
.PHONY: spark4-lane
spark4-lane: $(VENV_SPARK4)/.done
	@log=$$(mktemp); ended=0; RLI_TURN=$(TURN) $(VENV_SPARK4)/bin/python -m pytest \
		-m "spark and not hudi and not one_spark" $(or $(PYTEST_ARGS),$(SPARK4_TESTS)) \
		>$$log 2>&1 || ended=$$?; \
		echo "PySpark 4:"; cat $$log; rm $$log; exit $$ended

.PHONY: unit
unit: $(VENV)/.dev ## Run the quick tests, without Java and Docker, in about a minute
	$(BIN)/python -m pytest $(QUICK_TESTS) tests/architecture $(PYTEST_ARGS)

# The Python version of the unit lane; its interpreter is on the path, or one of pyenv's.
UNIT_VERSION ?= 3.13
VENV_UNIT = .venv-unit-$(UNIT_VERSION)
UNIT_PYTHON = $(shell for python in python$(UNIT_VERSION) $(HOME)/.pyenv/versions/$(UNIT_VERSION).*/bin/python; do \
	$$python -c 'import ensurepip, venv' 2>/dev/null && echo $$python && break; done)

.venv-unit-%/.done: requirements/unit.lock pyproject.toml
	@echo "installing rli for Python $(UNIT_VERSION) into $(VENV_UNIT)"
	@test -n "$(UNIT_PYTHON)" || { echo "no Python $(UNIT_VERSION) with venv found: install it, or set UNIT_VERSION=…" >&2; exit 2; }
	@$(UNIT_PYTHON) -m venv $(VENV_UNIT)
	$(call install_locked,$(VENV_UNIT),requirements/unit.lock)

.PHONY: unit-lane
unit-lane: $(VENV_UNIT)/.done ## Run the quick tests on another Python version (UNIT_VERSION=3.12)
	RLI_TURN=$(TURN) $(VENV_UNIT)/bin/python -m pytest $(QUICK_TESTS) $(PYTEST_ARGS)

# How many times as many random cases as `make test`.
SOAK ?= 20
SOAK_TESTS := tests/advice tests/benchmarks tests/cli tests/concurrency tests/conformance tests/crash tests/docs tests/index tests/index_kinds \
	tests/interop tests/reads tests/services tests/spark tests/storage tests/table tests/unit examples

.PHONY: soak
soak: $(VENV)/.dev ## Try many random cases: histories, kills at random times, examples (SOAK=100: for longer)
	RLI_SOAK=$(SOAK) $(BIN)/python -m pytest $(IN_PARALLEL) --timeout 86400 \
		$(or $(PYTEST_ARGS),$(SOAK_TESTS))

.PHONY: lint
lint: $(VENV)/.dev ## Check style, format, spelling, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: $(VENV)/.dev ## Format the code and sort its imports
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

.PHONY: docs
docs: $(VENV)/.dev ## Build the documentation's site into dist/site; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.PHONY: bench
bench: $(VENV)/.dev ## Run the benchmarks and print their ratios
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

.PHONY: charts
charts: ## Put the charts of the last whole `make bench` into the documents
	cp bench-results/goals.svg docs/images/benchmarks.svg
	cp bench-results/peers.svg docs/images/peers.svg
	cp bench-results/commits.svg docs/images/commits.svg

.PHONY: bench-history
bench-history: ## Keep the figures of the last whole `make bench` under a NAME, such as the version, and show their trend
	$(BIN)/python -m benchmarks.history $(NAME)

.PHONY: large-charts
large-charts: ## Put the charts of the last `make bench BENCH_ARGS=--large` into the documents
	cp bench-results/large_tables.svg docs/images/large.svg
	cp bench-results/overview.svg docs/images/overview.svg

# uv resolves for all Python versions and platforms at once; plain pip installs what it wrote.
UV_COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-annotate --custom-compile-command "make lock" $(LOCK_ARGS) pyproject.toml

.PHONY: lock
lock: $(VENV)/.dev ## Write requirements/*.lock again (LOCK_ARGS=--upgrade takes newer versions)
	$(UV_COMPILE) --extra spark --extra fsspec --extra objects --extra redis --extra hbase --extra zookeeper --extra metrics --group dev --constraint requirements/spark35.txt \
		-o requirements/dev.lock
	$(UV_COMPILE) --extra spark --extra fsspec --extra objects --extra redis --extra hbase --extra zookeeper --extra metrics --group build --constraint requirements/dev.lock \
		-o requirements/runtime.lock
	$(UV_COMPILE) --extra spark --extra fsspec --extra objects --extra redis --extra hbase --extra zookeeper --extra metrics --group spark4 -o requirements/spark4.lock
	$(UV_COMPILE) --extra fsspec --extra objects --extra redis --extra hbase --extra zookeeper --extra metrics --group unit --constraint requirements/dev.lock \
		-o requirements/unit.lock

.PHONY: clean
clean: ## Remove the environments, builds and caches
	rm -rf $(VENV) $(VENV_SPARK4) .venv-unit-* dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis \
		spark-warehouse metastore_db artifacts derby.log
	find rli backends spark tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
