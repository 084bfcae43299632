# `make run` and `make test` need Python >= 3.10 with venv, Rust and make, and set up the rest.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CARGO := cargo
MANIFEST := --manifest-path ext/Cargo.toml
MATURIN := VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin
SOURCES := $(shell find ext -name '*.rs' -not -path '*/target/*') $(wildcard ext/Cargo.* ext/*/Cargo.toml)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_QUIET := 1

.PHONY: help run test test-rust test-python test-system lint format
.PHONY: bench-quick bench-instructions bench-gate bench-compare bench
.PHONY: cyref sdist wheel pure-wheel wheel-test lock-peers clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

run: $(VENV)/.built ## fragmented input over a real socket, decoded per read and by seamstream
	@$(BIN)/python -m seamstream demo

test: test-rust test-python ## all tests, on both backends

test-rust:
	$(CARGO) test $(MANIFEST) --package seamstream --quiet

# Many of the peers need Python 3.11. On 3.10 what runs beside them is left out.
ALONE := $(shell $(PYTHON) -c 'import sys; print("alone" if sys.version_info < (3, 11) else "")')

test-python: $(if $(ALONE),$(VENV)/.built,$(VENV)/.peers $(VENV)/.urllib3 $(VENV)/.cyref)
	$(if $(ALONE),@echo "NOT TESTED: tests/contracts (the peers need Python 3.11 or later)")
	$(if $(ALONE),@test "$$SEAMSTREAM_FAIL_ON_SKIP" != 1)
	$(BIN)/python -m pytest $(if $(ALONE),--ignore tests/contracts)

test-system: $(VENV)/.system $(VENV)/.peers ## tests that drive programs which .ci/system-packages installs
	$(BIN)/python -m pytest tests/system

lint: $(VENV)/.lint $(VENV)/.peers ## formatting, linters and types, in Python and Rust
	$(CARGO) fmt $(MANIFEST) --all --check
	PYO3_PYTHON=$(abspath $(BIN)/python) $(CARGO) clippy $(MANIFEST) --workspace --all-targets \
	  --quiet -- --deny warnings
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/mypy tests/typing
	$(BIN)/mypy --config-file tests/contracts/mypy.ini
	$(BIN)/python -m mypy.stubtest seamstream._core --allowlist tests/typing/stubtest.txt
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(VENV)/.lint ## rewrite what the formatters would
	$(CARGO) fmt $(MANIFEST) --all
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench-quick: $(VENV)/.built ## the speed budget: figures, and failure where one is missed
	$(CARGO) bench $(MANIFEST) --package seamstream --bench sse -- --gate
	$(BIN)/python -m benches.quick --gate

bench-instructions: $(VENV)/.built ## instructions of the hot paths, counted by valgrind
	$(BIN)/python -m benches.instructions

bench-gate: $(VENV)/.built ## what fails on a slower parser and on nothing else, neighbours or not
	$(BIN)/python -m benches.instructions --gate
	$(CARGO) bench $(MANIFEST) --package seamstream --bench sse -- --gate --noisy
	$(BIN)/python -m benches.quick --gate --noisy

bench-compare: $(VENV)/.built ## the revision BASE beside what is here, by instructions and by time
	$(BIN)/python -m benches.compare $(BASE)

bench: $(VENV)/.peers $(VENV)/.cyref ## the peers compared: records, a table and a page in build/bench (BENCH=quick: a part)
	mkdir -p build/bench
	$(BIN)/python -m pytest benches --benchmark-enable --benchmark-timer=time.thread_time \
	  --benchmark-quiet --benchmark-json=build/bench/run.json --quiet -r fE
	$(BIN)/python -m benches.node build/bench/node.json
	$(BIN)/python -m benches.export build/bench/run.json build/bench/node.json
	$(BIN)/python -m benches.dashboard build/bench/records.json build/bench/index.html

cyref: $(VENV)/.cyref ## the reference compiled by Cython, for the benchmarks, in build/cyref

sdist: $(VENV)/.tools ## a source distribution in dist/, and unpacked in build/sdist
	rm -rf dist/*.tar.gz build/sdist && mkdir -p build/sdist
	$(BIN)/maturin sdist --out dist
	tar --extract --gzip --file dist/seamstream-*.tar.gz --directory build/sdist --strip-components 1

wheel: sdist ## a wheel, built through the sdist, in dist/
	rm -f dist/*-cp3*.whl
	$(BIN)/maturin build --release --locked --quiet --interpreter $(abspath $(BIN)/python) \
	  --manifest-path build/sdist/ext/seamstream-python/Cargo.toml --target-dir ext/target --out dist

pure-wheel: $(VENV)/.tools ## a wheel without the compiled module, built without Rust, in dist/
	rm -f dist/*-none-any.whl
	$(BIN)/python -m pip install "setuptools>=77.0.3"
	$(BIN)/python -c "import setuptools.build_meta as b; b.build_wheel('dist')" > /dev/null

wheel-test: wheel pure-wheel ## install each wheel where there is no cargo, and run the suite there
	.ci/wheel-test $(BIN)/python

lock-peers: ## pin what benches/peers.in names, at the versions of today, in benches/peers.lock
	rm -rf build/peers && $(PYTHON) -m venv build/peers
	build/peers/bin/python -m pip install --requirement benches/peers.in
	build/peers/bin/python -m pip freeze --all --exclude pip > benches/peers.lock
	rm -r build/peers

clean: ## remove what these targets made
	rm -rf $(VENV) build dist ext/target

$(VENV)/.tools: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "seamstream needs Python 3.10 or later")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install "maturin>=1.14,<2"
	touch $@

$(VENV)/.built: $(VENV)/.tools $(SOURCES)
	$(MATURIN) develop --release --quiet --extras test
	touch $@

$(VENV)/.lint: $(VENV)/.built
	$(MATURIN) develop --release --quiet --extras test,lint
	touch $@

$(VENV)/.system: $(VENV)/.built
	$(MATURIN) develop --release --quiet --extras test,system
	touch $@

$(VENV)/.peers: $(VENV)/.built benches/peers.lock
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "the peers need Python 3.11 or later")'
	$(BIN)/python -m pip install --no-deps --requirement benches/peers.lock
	touch $@

$(VENV)/.cyref: setup.py $(wildcard src/seamstream/_reference/*.p*) benches/peers.lock | $(VENV)/.peers
	SEAMSTREAM_BUILD=cython $(BIN)/python setup.py --quiet build_ext --build-lib build/cyref
	touch $@

# niquests puts its own in the place of urllib3; the original is tested from a place apart.
$(VENV)/.urllib3: $(VENV)/.tools benches/peers.lock
	$(BIN)/python -m pip install --no-deps --upgrade --target $(VENV)/urllib3 \
	  $$(grep ^urllib3== benches/peers.lock)
	touch $@
