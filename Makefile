# Keywork's two commands: `make demo` shows it at work, `make test` checks everything. Both set up
# what they need by themselves, in .tools and target, and say what to install if a toolchain is missing.

# How many tests of one crate run side by side: each may start servers of its own.
TEST_THREADS ?= 2
CARGO ?= cargo

.NOTPARALLEL:
.DEFAULT_GOAL := help

.PHONY: help
help: ## Shows this list.
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: demo
demo: ## Builds Keywork and shows it at work.
	@tools/need cargo cc python3 go
	@tools/install-nats-server
	@tools/install-grpcurl
	@demo/run

.PHONY: test
test: need tools arrows fmt clippy lint quotes build unit sdks conformance-quick ## Sets up, then checks and tests everything.

.PHONY: conformance
conformance: ## Holds every SDK to all scenarios; ends with a table.
	@tools/install-nats-server
	tests/conformance/run

.PHONY: figures
figures: ## Measures every SDK, with release builds; ends with a table.
	@tools/install-nats-server
	tests/conformance/run --figures

.PHONY: tools
tools: ## Installs nats-server, buf and grpcurl into .tools.
	@tools/install-nats-server
	@tools/install-buf
	@tools/install-grpcurl

.PHONY: clean
clean: ## Removes what was built and installed here.
	$(CARGO) clean
	rm -rf .tools

# The steps of `make test`, one by one.

.PHONY: need
need:
	@tools/need cargo cc python3 node npm go java mvn

.PHONY: arrows
arrows: # Crates depend on one another only as the architecture says.
	@tools/check-arrows

.PHONY: fmt
fmt:
	$(CARGO) fmt --all --check

.PHONY: clippy
clippy:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

.PHONY: lint
lint: # The contract, its changes since the last release, and what is generated from it.
	@tools/install-buf
	.tools/bin/buf lint
	@tools/check-breaking
	@tools/generate --check

.PHONY: quotes
quotes: # The programs in the documentation are those that the tests run.
	@tools/quote --check

.PHONY: build
build:
	$(CARGO) build --locked --workspace --all-targets

.PHONY: unit
unit: # All of the Rust tests; those at the end are the black-box ones.
	@tools/install-nats-server
	$(CARGO) test --locked --workspace --no-fail-fast -- --test-threads=$(TEST_THREADS)

.PHONY: sdks
sdks: build # Each SDK by its own tests, and from what it ships as, in an empty project.
	@failed=; for check in sdk/*/check; do $$check || failed="$$failed $$check"; done; \
	  [ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

.PHONY: conformance-quick
conformance-quick: # The quick scenarios for every SDK, each along one path.
	@tools/install-nats-server
	tests/conformance/run --quick
