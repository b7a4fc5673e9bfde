# Two commands matter: `make demo` shows what anode does, `make test` proves that it works.
# Each installs what is missing (by apt, as root) or says in one line what to install.

CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto

.PHONY: demo test lint soak fuzz build bench deps clean

demo: build
	./target/release/anode demo

build: deps
	$(CARGO) build --workspace --release --locked

# All tests. Those that need root or namespaces say SKIPPED and why when they cannot run; with CI set
# they must run.
test: deps
	$(CARGO) test --workspace --release --locked --no-fail-fast
	$(CARGO) build --workspace --release --locked
	python3 -m unittest discover -s clients/python -v

# What a change must pass before review.
lint: deps
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --release --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --release --no-deps --locked
	@if command -v cargo-deny >/dev/null; then $(CARGO) deny check; \
	else echo "SKIPPED cargo deny: not installed (cargo install cargo-deny)"; fi
	$(CARGO) test --release --locked --test tidy

# The same tests at full length; the last result is in docs/soak.md.
soak: deps
	sh tools/soak.sh

# One minute for every parser, linker and checker (needs cargo-fuzz and a nightly toolchain).
fuzz: deps
	cd fuzz && for target in $$($(CARGO) +nightly fuzz list); do \
		$(CARGO) +nightly fuzz run $$target -- -max_total_time=60 || exit 1; done

# The measurements behind the figures in README.md.
bench: build
	./target/release/anode bench capsules --out bench-results

deps:
	@sh tools/deps.sh

clean:
	$(CARGO) clean
