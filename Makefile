# Everything that a developer or a machine does with this tree. Needs python3 (3.11 or newer, with
# venv and pip) and nothing else; the rest is installed into .venv from requirements.lock.

PYTHON ?= python3
UV_VERSION := 0.13.7
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# Most of the long tests wait for processes that they have started.
TEST_JOBS ?= $(shell expr $(JOBS) '*' 2)
ARGS ?=

BIN := .venv/bin
READY := .venv/.ready
MEASURED := .bench/crawlfleet/.ready
PAGE_READY := dashboard/node_modules/.ready
UV := $(BIN)/uv
UV_INSTALL := $(UV) pip install --quiet --python $(BIN)/python
# Trust what the machine trusts, where it has certificates of its own; uv brings others.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt),)
export UV_SYSTEM_CERTS ?= 1
endif

# Many processes are started here: each would compile all that it loads where this is set.
export PYTHONDONTWRITEBYTECODE :=

# Debian packages that tests need; put there by `make servers` where missing.
SERVER_PACKAGES := chromium postgresql redis-server strace iproute2 libfaketime systemd
# These only where a program is missing: it may have come from elsewhere.
NODE_PACKAGES := nodejs npm
COMPILER_PACKAGES := gcc libc6-dev python3-dev

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: $(READY) ## Start a fleet on this machine, with work to watch
	$(BIN)/crawlfleet up --demo --data .run $(ARGS)

.PHONY: test
# The packages of the page are there before the tests, several of which need them at once.
test: $(READY) servers $(PAGE_READY) ## Run every test
	$(BIN)/pytest -n $(TEST_JOBS) --dist loadgroup $(ARGS)
ifeq ($(ARGS),)
	$(BIN)/python tests/pythons.py --newest -n $(JOBS) --dist loadgroup tests/core tests/crawl
endif

.PHONY: check
check: $(READY) ## Format, lint, types, layers and the fast tests, in under a minute
	@$(MAKE) --no-print-directory --keep-going --jobs=$(JOBS) --output-sync=target \
		check-tests check-types check-layers check-lint check-format

# Those on the PATH and under pyenv, without the version of .venv.
.PHONY: pythons
pythons: $(READY) ## Run the fast tests on every other Python here, from 3.11 on
	$(BIN)/python tests/pythons.py -n $(JOBS) --dist loadgroup $(ARGS)

.PHONY: bench
bench: $(MEASURED) ## Measure speed, with peers and limits beside it
	.bench/crawlfleet/bin/python -m bench $(ARGS)

.PHONY: soak
soak: SERVER_PACKAGES += user-mode-linux
soak: $(READY) servers $(PAGE_READY) ## Run the slow tests for long
	CRAWLFLEET_SOAK=1 $(BIN)/pytest -m slow $(ARGS)

.PHONY: fmt
fmt: $(READY) ## Format the code, and mend what can be mended
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

# No registry is named in the locks: each machine uses the one that it is set up for. The second
# one is for machines that run a fleet, with the same versions.
LOCK := $(UV) pip compile pyproject.toml --all-extras --universal --generate-hashes \
	--no-emit-index-url --no-header -p 3.11 -q
.PHONY: lock
lock: $(READY) ## Choose the versions of all packages anew (ARGS=--upgrade for the newest)
	$(LOCK) --group dev -o requirements.lock $(ARGS)
	$(LOCK) --constraints requirements.lock -o requirements-run.lock

# The page is built ahead and committed, so that who installs the package needs no node.
.PHONY: dashboard
dashboard: $(READY) $(PAGE_READY) ## Check the sources of the dashboard, and build it into the package (needs node)
	$(BIN)/python dashboard/scripts/openapi.py dashboard/generated/openapi.json
	@for step in types land lint check test build; do \
		echo "npm run $$step"; npm --prefix dashboard run --silent $$step || exit 1; done

$(PAGE_READY): dashboard/package-lock.json dashboard/package.json dashboard/.npmrc
	@command -v npm >/dev/null || { echo 'the dashboard is built with node 20.19 or newer, and npm'; exit 1; }
	cd dashboard && npm ci --no-progress --loglevel=error
	@touch $@

.PHONY: check-format check-lint check-types check-layers check-tests
check-format:
	$(BIN)/ruff format --check --quiet --output-format=concise . || { echo 'not formatted: run "make fmt"'; exit 1; }
check-lint:
	$(BIN)/ruff check --quiet .
check-types:
	$(BIN)/mypy
check-layers:
	$(BIN)/lint-imports --no-logo
check-tests:
	$(BIN)/pytest -q -n $(JOBS) --dist loadgroup -p no:schemathesis -m "not slow"

# Where they cannot be installed, the tests that need one fail and say so.
.PHONY: servers
servers:
	@missing=; for package in $(SERVER_PACKAGES); do \
		dpkg -s $$package >/dev/null 2>&1 || missing="$$missing $$package"; done; \
	command -v npm >/dev/null || missing="$$missing $(NODE_PACKAGES)"; \
	{ command -v cc >/dev/null && $(PYTHON) -c 'import pathlib, sys, sysconfig; sys.exit(not \
		pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())'; } \
		|| missing="$$missing $(COMPILER_PACKAGES)"; \
	[ -n "$$missing" ] || exit 0; \
	if [ "$$(id -u)" = 0 ]; then sudo=; else sudo='sudo -n'; fi; \
	if ! command -v apt-get >/dev/null || ! $$sudo true 2>/dev/null; then \
		echo "tests need these servers; as root: apt-get install$$missing"; exit 0; fi; \
	echo "installing$$missing"; \
	$$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive \
		apt-get install -qq -y --no-install-recommends $$missing

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo 'crawlfleet needs Python 3.11 or newer as "$(PYTHON)", which is:' \
			"$$({ $(PYTHON) --version; } 2>/dev/null || echo missing)."; \
		echo 'Name another one, such as: make PYTHON=python3.12'; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
		rm -rf .venv; $(PYTHON) -m venv .venv || { rm -rf .venv; \
		echo 'Python has no venv module here; on Debian: apt-get install python3-venv'; exit 1; }; }
	@echo 'installing packages into .venv'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(UV_INSTALL) --require-hashes -r requirements.lock
	@$(UV_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

# For the Pythons of `make pythons`, and that of .venv. An installation from the sources compiles
# nothing.
.PHONY: wheels
wheels: $(READY) ## Build a compiled wheel for every Python here, into dist (needs a C compiler)
	$(BIN)/python wheels.py

# What is measured is the package as a wheel of `make wheels` has it.
$(MEASURED): $(READY) compiling.py $(shell find src -name '*.py')
	@echo 'installing what is measured into .bench/crawlfleet'
	@$(UV) venv --quiet --clear --python $(BIN)/python .bench/crawlfleet
	@$(UV) pip install --quiet --python .bench/crawlfleet/bin/python --require-hashes -r requirements.lock
	@CRAWLFLEET_COMPILE=always $(UV) pip install --quiet --python .bench/crawlfleet/bin/python \
		--no-deps --no-build-isolation --no-cache .
	@touch $@

.PHONY: shape
shape: $(READY) ## Print the shape of the code as figures
	@$(BIN)/python -m tests.architecture.shape

.PHONY: docs
docs: $(READY) ## Draw the diagrams and take the picture of the docs
	$(BIN)/python docs/settings.py
	$(BIN)/python docs/api.py
	$(BIN)/python docs/diagrams.py
	$(BIN)/python -m docs.picture
