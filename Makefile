# `make run` and `make test` need Python >= 3.10 with venv, Rust and make, and set up the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CARGO := cargo
MANIFEST := --manifest-path ext/Cargo.toml
SOURCES := $(shell find ext -name '*.rs' -not -path '*/target/*') $(wildcard ext/Cargo.* ext/*/Cargo.toml)

.PHONY: help run test test-rust test-python lint format bench-quick wheel wheel-test clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

run: $(VENV)/.built ## fragmented input over a real socket, decoded per read and by seamstream
	@$(BIN)/python -m seamstream demo

test: test-rust test-python ## all tests, on both backends

test-rust:
	$(CARGO) test $(MANIFEST) --package seamstream --quiet

test-python: $(VENV)/.built
	$(BIN)/python -m pytest

lint: $(VENV)/.lint ## formatting, linters and types, in Python and Rust
	$(CARGO) fmt $(MANIFEST) --all --check
	$(CARGO) clippy $(MANIFEST) --workspace --all-targets --quiet -- --deny warnings
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/mypy tests/typing
	$(BIN)/python -m mypy.stubtest seamstream._core --allowlist tests/typing/stubtest.txt
	$(BIN)/pyright

format: $(VENV)/.lint ## rewrite what the formatters would
	$(CARGO) fmt $(MANIFEST) --all
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench-quick: $(VENV)/.built ## the speed budget: figures, and failure where one is missed
	$(CARGO) bench $(MANIFEST) --package seamstream --bench sse -- --gate
	$(BIN)/python -m benches.quick --gate

wheel: $(VENV)/.tools ## a wheel, built through the sdist, in dist/
	rm -rf dist
	$(BIN)/maturin sdist --out dist
	rm -rf build/sdist && mkdir -p build/sdist
	tar --extract --gzip --file dist/seamstream-*.tar.gz --directory build/sdist --strip-components 1
	$(BIN)/maturin build --release --manifest-path build/sdist/ext/seamstream-python/Cargo.toml \
	  --target-dir ext/target --out dist

wheel-test: wheel ## install the wheel where there is no cargo, and run its suite there
	.ci/wheel-test

clean: ## remove what these targets made
	rm -rf $(VENV) build dist ext/target

$(VENV)/.tools: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "seamstream needs Python 3.10 or later")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "maturin>=1.14,<2"
	touch $@

$(VENV)/.built: $(VENV)/.tools $(SOURCES)
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release --quiet --extras test
	touch $@

$(VENV)/.lint: $(VENV)/.built
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release --quiet --extras test,lint
	touch $@
