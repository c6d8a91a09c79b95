# The commands of the project. `make` alone lists them.

CARGO ?= cargo
FLASHFIT := target/release/flashfit
DEMO_DIR := demo-run

.PHONY: deb static-all dist test-same test-arm64 test-arm64-user test-armhf test-install doc schemas dependencies fuzz-check test-debian13 help prepare build static demo test test-rest test-full lint bench cards findings grids workload-pairs accuracy search-benchmark prior-benchmark twin-benchmark counted-rate twin-ranks twin-first starting-states wear-benchmark option-life crash-benchmark crash-catalog harm kills clean

help:
	@echo "make demo   tune a built-in simulated card and write a report (about four minutes)"
	@echo "make test   run the daily tests; as root it installs missing packages, without root some are skipped"
	@echo "make test-rest  run what the daily tests leave out: kill campaigns, power cuts, the lab"
	@echo "make test-full  run all tests"
	@echo "make build  build target/release/flashfit"
	@echo "make static build a static binary for boards: target/*/static/flashfit"
	@echo "make lint   rustfmt and clippy, warnings as errors"
	@echo "make deb    build Debian packages for amd64, arm64 and armhf in a Debian 13 system (root)"
	@echo "make static-all  build static binaries for the same three (root)"
	@echo "make dist   source, packages and static binaries of a release, with checksums (root)"
	@echo "make test-same  build the amd64 binary twice in two directories, compare (root, half an hour)"
	@echo "make doc    the code's documentation, warnings as errors"
	@echo "make schemas  write docs/schemas: the JSON Schemas of all documents that commands print"
	@echo "make dependencies  licenses, sources and (with cargo-deny) known vulnerabilities of all crates"
	@echo "make fuzz-check  compile the fuzz targets"
	@echo "make test-debian13  run the tests with Rust 1.85 in a Debian 13 system (root)"
	@echo "make test-arm64  use the package in an emulated arm64 system, also with 16 KiB pages (root)"
	@echo "make test-armhf  use the armhf binary under user emulation, compare with amd64 (root)"
	@echo "make test-arm64-user  the same with the arm64 binary (root)"
	@echo "make test-install  follow docs/install.md in clean Debian 13 and 12 systems (root)"
	@echo "make bench  measure the simulated card: requests per second and added latency"
	@echo "make cards  write docs/cards.md: simulated cards compared with real ones"
	@echo "make findings  write docs/findings.md: published findings repeated on simulated cards (root)"
	@echo "make harm   try to make flashfit do harm: the tests of docs/safety.md, with counts (root)"
	@echo "make kills  kill processes of a run at random, a hundred times on each test bed (root)"
	@echo "make workload-pairs  which two workloads predict the ranking under all best"
	@echo "make grids  record examples/grids: all setups of small spaces on simulated cards (root, five hours)"
	@echo "make accuracy  write docs/accuracy.md: accuracy of probes (needs root to be complete)"
	@echo "make option-life  write catalog/life: what options cost or save in life (root, an hour)"
	@echo "make wear-benchmark  write docs/wear.md: quality of estimates of wear"
	@echo "make search-benchmark  write docs/search.md: quality of the search"
	@echo "make prior-benchmark  write docs/similar-devices.md: what a survey is worth to a search (an hour)"
	@echo "make twin-benchmark  print what a twin of the device is worth to a search (half an hour)"
	@echo "make counted-rate  trials an hour in virtual machines with counted instructions (GUESTS=2)"
	@echo "make twin-ranks  how twins of drawn cards rank setups in such machines (hours)"
	@echo "make twin-first  what few trials find that begin with these twins (after make twin-ranks)"
	@echo "make starting-states  write docs/starting-states.md: claimed gains against measurements by hand (root, an hour)"
	@echo "make crash-benchmark  write docs/crash.md: crash states, rates, what is noticed (root, hours)"
	@echo "make crash-catalog  write docs/crash-catalog.md: promises of the catalog, measured (root, hours)"
	@echo "make clean  remove what was built"

prepare:
	@sh scripts/prepare.sh

build:
	$(CARGO) build --release --locked

# A static binary for boards and virtual machines, for this processor. TARGET=aarch64-unknown-linux-gnu
# makes it for 64-bit ARM, where that target and its linker are installed; `make static-all` needs neither.
# It has no `flashfit survey`, which the package for amd64 has.
TARGET := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')

static:
	RUSTFLAGS="-C target-feature=+crt-static" \
		$(CARGO) build --profile static --locked --target $(TARGET) --no-default-features -p flashfit
	@ls -l target/$(TARGET)/static/flashfit

# ARCHITECTURES=arm64 builds for one only. Results are left in $(DIST).
ARCHITECTURES := amd64 arm64 armhf
DIST := $(or $(CARGO_TARGET_DIR),target)/debian-13-packages/build/dist

deb:
	sh scripts/debian13.sh --for packages sh packaging/debs.sh $(ARCHITECTURES)
	@ls -l $(DIST)/*.deb

static-all:
	sh scripts/debian13.sh --for packages sh packaging/statics.sh $(ARCHITECTURES)
	@ls -l $(DIST)

dist:
	sh scripts/debian13.sh --for packages sh packaging/dist.sh $(ARCHITECTURES)
	@ls -l $(DIST)

# ONLY=std compares Rust's standard library, which takes five minutes.
test-same:
	sh scripts/debian13.sh --for packages sh packaging/compare-builds.sh amd64 $(ONLY)

demo:
	@sh scripts/prepare.sh demo
	$(CARGO) build --release --locked
	@if [ -e $(DEMO_DIR)/run.json ]; then rm -rf $(DEMO_DIR); fi
	$(FLASHFIT) tune --config examples/demo.toml --dir "$(DEMO_DIR)"

# Tests that run in memory, and one smoke test of each test bed.
test:
	@sh scripts/prepare.sh test
	@CARGO="$(CARGO)" scripts/run-tests.sh daily

# What the daily tests leave out.
test-rest:
	@sh scripts/prepare.sh test-full
	@CARGO="$(CARGO)" scripts/run-tests.sh rest

test-full:
	@sh scripts/prepare.sh test-full
	@CARGO="$(CARGO)" scripts/run-tests.sh full

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy -p flashfit --no-default-features --locked -- -D warnings
	$(CARGO) test -p flashfit --no-default-features --locked --bin flashfit survey::

schemas:
	FLASHFIT_BLESS=1 $(CARGO) test --locked -p flashfit --bin flashfit schemas

# Warnings of rustdoc, such as broken links, are errors.
doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --keep-going

dependencies:
	@sh scripts/check-dependencies.sh

# Checks that the fuzz targets compile. Fuzzing needs a nightly compiler (fuzz/README.md).
fuzz-check:
	@sh scripts/prepare.sh fuzz
	$(CARGO) check --locked --manifest-path fuzz/Cargo.toml --target-dir target/fuzz

# Debian 13 has the oldest supported Rust, 1.85.
test-debian13:
	sh scripts/debian13.sh make test

# These need the results of `make deb` and `make static-all`. INSTALL=source also builds from source.
test-arm64:
	bash scripts/arm64.sh $(DIST)

test-armhf:
	sh scripts/debian13.sh --for packages sh scripts/user-emulation.sh armhf

# In minutes, without a kernel; test-arm64 shows more.
test-arm64-user:
	sh scripts/debian13.sh --for packages sh scripts/user-emulation.sh arm64

test-install:
	bash scripts/install-paths.sh $(DIST) $(INSTALL)

bench:
	$(CARGO) bench --locked -p flashfit-card -p flashfit-card-server

cards: build
	$(FLASHFIT) --catalog catalog card bench --all --markdown > docs/cards.md.new
	mv docs/cards.md.new docs/cards.md

# The tests of docs/safety.md, including kill and power-cut campaigns.
harm:
	@sh scripts/prepare.sh test
	bash scripts/harm.sh

# The campaigns of all test beds, one after the other.
kills:
	@sh scripts/prepare.sh test-full
	FLASHFIT_KILLS=100 $(CARGO) test --locked -p flashfit --test whole_program random_kills -- \
		--ignored --nocapture --test-threads 1
	FLASHFIT_KILLS=100 $(CARGO) test --locked -p flashfit-lab --test lab random_kills -- --ignored --nocapture

findings:
	$(CARGO) bench --locked --quiet -p flashfit --bench findings > docs/findings.md.new
	mv docs/findings.md.new docs/findings.md

grids: build
	sh scripts/record-grid.sh emmc-5.1 usd-a2-cq-unsafe usd-a2-cq sd-c4-block

# Parts: make accuracy PARTS="fakes time"; other parts are then left out of the file.
accuracy:
	$(CARGO) bench --locked --quiet -p flashfit --bench accuracy -- $(PARTS) > docs/accuracy.md.new
	mv docs/accuracy.md.new docs/accuracy.md

# Parts: make wear-benchmark PARTS="formulas replay"; other parts are then left out of the file.
wear-benchmark:
	$(CARGO) bench --locked --quiet -p flashfit-wear --bench wear -- $(PARTS) > docs/wear.md.new
	mv docs/wear.md.new docs/wear.md

# OPTIONS="--fs btrfs --options ssd,nossd --merge catalog/life/options.toml" measures these only.
option-life: build
	python3 scripts/option-life.py $(OPTIONS) > catalog/life/options.toml.new
	mv catalog/life/options.toml.new catalog/life/options.toml

# The table of docs/tuning.md about the default workloads; from examples/grids, in seconds.
workload-pairs:
	python3 scripts/workload-pairs.py $(GRIDS)

search-benchmark:
	$(CARGO) bench --locked --quiet -p flashfit-search --bench search > docs/search.md.new
	$(CARGO) bench --locked --quiet -p flashfit-tune --bench grids >> docs/search.md.new
	mv docs/search.md.new docs/search.md

# SEEDS=8 limits the second part.
prior-benchmark: build
	$(CARGO) bench --locked --quiet -p flashfit-search --bench prior > docs/similar-devices.md.new
	python3 scripts/prior-grids.py $(FLASHFIT) $(SEEDS) >> docs/similar-devices.md.new
	mv docs/similar-devices.md.new docs/similar-devices.md

twin-benchmark: build
	$(CARGO) bench --locked --quiet -p flashfit-search --bench prior -- --twin --only small
	python3 scripts/twin-grids.py $(FLASHFIT) $(SEEDS)

GUESTS := 2

counted-rate: build
	sh scripts/counted-rate.sh $(FLASHFIT) $(GUESTS)

# Drawn cards of 640 MiB to 8 GiB. Fitting twins was developed on cards with seeds from 1000000.
# KEEP=1 keeps the runs of each card in RECORDED, and runs that are there are not made again. RUNS=1,
# TWIN_RUNS=1, LARGE=1, RUNTIME_MS=400 and DATA_SIZE=4MiB are explained in scripts/twin-ranks.py. Runs
# with another length of the stages need another TWIN_RANKS=DIR, also for twin-first.
TWIN_CARDS := 2000000 2000001 2000003 2000004 2000007 2000010 2000015 2000018 2000022 2000024 2000027 2000028
TWIN_RANKS := target/twin-ranks
# Those of the usual length.
RECORDED := $(if $(filter target/twin-ranks,$(TWIN_RANKS)),examples/twins)

twin-ranks: build
	$(CARGO) build --release --locked --quiet -p flashfit-geometry --example drawn_card
	mkdir -p $(TWIN_RANKS)/cards
	for seed in $(TWIN_CARDS); do \
		target/release/examples/drawn_card $$seed > $(TWIN_RANKS)/cards/drawn-$$seed.toml || exit 1; \
	done
	WORK=$(TWIN_RANKS) RECORDED=$(RECORDED) GUESTS=$(GUESTS) python3 scripts/twin-ranks.py $(FLASHFIT) \
		$(TWIN_CARDS:%=$(TWIN_RANKS)/cards/drawn-%.toml)

twin-first: build
	mkdir -p $(TWIN_RANKS)
	for archive in $(if $(RECORDED),$(wildcard $(RECORDED)/*.tar.gz)); do \
		tar -xzf $$archive --skip-old-files -C $(TWIN_RANKS) || exit 1; \
	done
	WORK=$(TWIN_RANKS) python3 scripts/twin-first.py $(FLASHFIT) $(TWIN_CARDS:%=drawn-%)

# CASES="--cards sd-c10-log --workloads sync-files" limits it.
starting-states: build
	python3 scripts/starting-states.py $(CASES) > docs/starting-states.md.new
	mv docs/starting-states.md.new docs/starting-states.md

# FLASHFIT_CRASH_STATES=N scales both: 1000000 states of ext4, 2000 states of each setup.
crash-benchmark:
	$(CARGO) bench --locked --quiet -p flashfit-crash --bench crash > docs/crash.md.new
	mv docs/crash.md.new docs/crash.md

# In a virtual machine for file systems that this kernel lacks, with a tenth of the states.
crash-catalog: build
	FLASHFIT=$(abspath $(FLASHFIT)) $(CARGO) bench --locked --quiet -p flashfit-crash --bench promises > docs/crash-catalog.md.new
	mv docs/crash-catalog.md.new docs/crash-catalog.md

clean:
	$(CARGO) clean
