# The commands of the project. `make` alone lists them.

CARGO ?= cargo
FLASHFIT := target/release/flashfit
DEMO_DIR := demo-run

.PHONY: help prepare build static demo test lint bench cards findings grids accuracy search-benchmark kills clean

help:
	@echo "make demo   tune a built-in simulated card and write a report (about four minutes)"
	@echo "make test   run the tests; those that need root, loop devices or FUSE say so where they cannot"
	@echo "make build  build target/release/flashfit"
	@echo "make static build one file without libraries, for boards: target/*/static/flashfit"
	@echo "make lint   rustfmt and clippy, warnings as errors"
	@echo "make bench  measure the simulated card: requests a second, and the delay that serving adds"
	@echo "make cards  write docs/cards.md: the simulated cards beside real ones"
	@echo "make findings  write docs/findings.md: published findings tried on simulated cards (root)"
	@echo "make kills  kill whatever takes part in runs, a hundred times on each stand (root)"
	@echo "make grids  record examples/grids: all setups of small spaces on two simulated cards (root, five hours)"
	@echo "make accuracy  write docs/accuracy.md: how right probes are (root for all of it)"
	@echo "make search-benchmark  write docs/search.md: how well the search searches landscapes and grids"
	@echo "make clean  remove what was built"

prepare:
	@sh scripts/prepare.sh

build:
	$(CARGO) build --release --locked

# One file that needs no libraries, for boards and virtual machines. TARGET=aarch64-unknown-linux-gnu
# makes it for 64-bit ARM, where that target and its linker are installed (docs/stands.md).
TARGET := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')

static:
	RUSTFLAGS="-C target-feature=+crt-static" \
		$(CARGO) build --profile static --locked --target $(TARGET) -p flashfit
	@ls -l target/$(TARGET)/static/flashfit

demo:
	@sh scripts/prepare.sh demo
	$(CARGO) build --release --locked
	@if [ -e $(DEMO_DIR)/run.json ]; then rm -rf $(DEMO_DIR); fi
	$(FLASHFIT) tune --config examples/demo.toml --dir "$(DEMO_DIR)"

test:
	@sh scripts/prepare.sh test
	$(CARGO) test --workspace --locked

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

bench:
	$(CARGO) bench --locked -p flashfit-card

cards: build
	$(FLASHFIT) --catalog catalog card bench --all --markdown > docs/cards.md.new
	mv docs/cards.md.new docs/cards.md

# Both stands' campaigns, one after the other.
kills:
	@sh scripts/prepare.sh test
	FLASHFIT_KILLS=100 $(CARGO) test --locked -p flashfit --test whole_program random_kills -- \
		--nocapture --test-threads 1

findings:
	$(CARGO) bench --locked --quiet -p flashfit --bench findings > docs/findings.md.new
	mv docs/findings.md.new docs/findings.md

grids: build
	sh scripts/record-grid.sh emmc-5.1 usd-a2-cq-unsafe usd-a2-cq

accuracy:
	$(CARGO) bench --locked --quiet -p flashfit --bench accuracy > docs/accuracy.md.new
	mv docs/accuracy.md.new docs/accuracy.md

search-benchmark:
	$(CARGO) bench --locked --quiet -p flashfit-search --bench search > docs/search.md.new
	$(CARGO) bench --locked --quiet -p flashfit-tune --bench grids >> docs/search.md.new
	mv docs/search.md.new docs/search.md

clean:
	$(CARGO) clean
