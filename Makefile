# Two commands matter: `make demo` shows what anode does, `make test` proves that it works.
# Each installs what is missing (by apt, as root) or says in one line what to install.

CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto

.PHONY: demo test tests test-clients lint soak fuzz sbom build package bench deps clean

# Only the node: measurements are built by `make build`.
demo: deps
	$(CARGO) build --release --locked --bin anode
	./target/release/anode demo

build: deps
	$(CARGO) build --workspace --release --locked

# All tests. Those that need root or namespaces say SKIPPED and why when they cannot run; with CI set
# they must run.
test: tests test-clients

# Of all crates.
tests: deps
	@sh tools/deps.sh test
	$(CARGO) test --workspace --release --locked --no-fail-fast

# Of the clients in other languages, with the node that is built.
test-clients: deps
	@sh tools/deps.sh test
	$(CARGO) build --workspace --release --locked
	python3 -m unittest discover -s clients/python -v

# What a change must pass before review.
lint: deps
	$(CARGO) fmt --all --check
	rustfmt --check --edition 2024 src/schedule/policies/*.rs src/graph/engines/*.rs src/port/*.rs  # named by macros alone
	$(CARGO) clippy --workspace --release --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --release --no-deps --locked
	$(CARGO) check --manifest-path fuzz/Cargo.toml --locked
	CARGO="$(CARGO)" sh tools/deny.sh
	$(CARGO) test --release --locked --test tidy

# The same tests at full length; the last result is in docs/soak.md.
soak: deps
	sh tools/soak.sh

# A minute for every parser, linker and checker, from the committed corpus, with coverage (needs cargo-fuzz). `make test` runs each of
# them for a moment.
fuzz: deps
	sh tools/fuzz.sh 60

# Packages of what `make demo` builds: target/package has a .deb with its debug symbols, a wheel, and an image if buildah is here.
package: deps
	$(CARGO) build --release --locked --bin anode
	CARGO="$(CARGO)" sh tools/package.sh

# What the program is made of, as CycloneDX: target/sbom.
sbom:
	CARGO="$(CARGO)" sh tools/sbom.sh

# The measurements behind the figures in README.md.
bench: build
	./target/release/anode bench capsules --out bench-results

deps:
	@sh tools/deps.sh

clean:
	$(CARGO) clean
