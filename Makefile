# The two commands of the README. Each does its own set-up.

.PHONY: demo test test-vm test-vm-driver build package test-packages programs lint fuzz bench

demo: build
	@target/release/cutrace demo

build:
	@scripts/setup-packages build
	cargo build --release --locked --package cutrace --bin cutrace

# A wheel, a tarball and a .deb in target/packages, for glibc 2.28 and newer: docs/INSTALL.md.
package:
	@scripts/setup-packages package
	@packaging/build

# Installs and runs them, in a root of Debian 11 too.
test-packages:
	@scripts/setup-packages test-packages
	@tests/packages/run

test:
	@scripts/setup-packages test
	@scripts/test

# Hooks on the kernel, in virtual machines with Debian's kernels and a stand-in for the driver.
test-vm:
	@scripts/setup-packages vm
	cargo build --locked --bin cutrace
	@tests/vm/run

# The same with NVIDIA's own driver, which is built first (about ten minutes, once).
test-vm-driver:
	@scripts/setup-packages vm
	cargo build --locked --bin cutrace
	@tests/vm/run-driver

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
