# `make help` lists the targets. Each says what it does as it goes and sets up what it needs, in
# ${XDG_CACHE_HOME:-~/.cache}/loomplane-bench; nothing is installed elsewhere.

SHELL := bash
CARGO ?= cargo
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
# Terraform's names of this system, for the folder that it looks in
OS := $(shell uname -s | tr A-Z a-z)
ARCH := $(shell uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
PLUGINS ?= $(HOME)/.terraform.d/plugins
export CLUSTER KIND COUNT REFUSED_KIND

.DEFAULT_GOAL := help
.PHONY: help quickstart quickstart-stop test lint unit acceptance bench fuzz fault-runs test-hosts docs build order-functions install

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F '\t' '{printf "  make %-16s %s\n", $$1, $$2}'

quickstart: ## plan and apply a GPU service on a local control plane (CLUSTER=mine: on the cluster of KUBECONFIG)
	@scripts/quickstart.sh start

quickstart-stop: ## destroy what quickstart applied, end its control plane, remove its folder
	@scripts/quickstart.sh stop

test: ## everything that tests: formatting, clippy, cargo deny, unit, property and acceptance tests
	@scripts/test.sh

lint: ## formatting, clippy, cargo deny
	@scripts/test.sh lint

unit: ## unit and property tests only: no tools needed but Rust and a C compiler
	@scripts/test.sh unit

acceptance: ## the tests on real parts only
	@scripts/test.sh acceptance

bench: ## start-up, memory, plan and apply times beside Go providers and kubectl, as ratios
	@scripts/bench.sh

fuzz: ## the decoders on random and damaged input, FUZZ_SECONDS (300) each
	CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 LOOMPLANE_FUZZ_SECONDS=$${FUZZ_SECONDS:-300} \
	  $(CARGO) test --workspace --locked --release --lib --tests -- fuzz_ --nocapture --test-threads=1

fault-runs: ## runs of the CLI in each of which one thing goes wrong, until it struck in 300, with a table (half an hour)
	LOOMPLANE_TEST_HEAVY=1 $(CARGO) test --locked --test acceptance -- fault_runs

test-hosts: ## the CLI tests on the oldest supported Terraform and OpenTofu too (builds both: minutes)
	@scripts/test-hosts.sh

docs: ## write docs/ from the schemas and examples/
	$(CARGO) run --quiet --locked --bin terraform-provider-loomplane -- docs .

build: ## the provider as released, and where it is: static on Linux with musl, else dynamic
	@scripts/release.sh

order-functions: ## write scripts/functions.ld, by which the released binary needs less memory (valgrind; minutes)
	@scripts/order-functions.py

install: ## into the local plugin folder, where Terraform and OpenTofu find it at init (PLUGINS=...)
	binary=$$(scripts/release.sh); for host in registry.terraform.io registry.opentofu.org; do \
	  folder=$(PLUGINS)/$$host/loomplane/loomplane/$(VERSION)/$(OS)_$(ARCH); \
	  mkdir -p $$folder && cp -f "$$binary" $$folder/terraform-provider-loomplane_v$(VERSION) && echo "installed into $$folder"; \
	done
