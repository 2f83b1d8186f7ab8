# The two commands of the README. Each does its own set-up.

.PHONY: demo test build programs lint fuzz bench

demo: build
	@target/release/cutrace demo

build:
	@scripts/setup-packages build
	cargo build --release --locked --bin cutrace

test:
	@scripts/setup-packages test
	@scripts/test

programs:
	@scripts/setup-packages test
	$(MAKE) -C tests/programs

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

# Each target for SECONDS (600): needs a nightly toolchain.
fuzz:
	@fuzz/run

bench:
	cargo bench --workspace --locked
