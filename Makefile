# Everything a person does here. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
ENV ?= dev
ARGS ?=

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# --- try it -----------------------------------------------------------------

.PHONY: dev
dev: ## run the whole system on this machine (ARGS="--memory --port 9001")
	@scripts/setup build
	@cargo build --locked --workspace --bin ichido-local
	@exec "$${CARGO_TARGET_DIR:-target}/debug/ichido-local" $(ARGS)

# --- prove it ---------------------------------------------------------------

.PHONY: test
test: ## prove everything: Rust, infrastructure, resolvers, browser
	@scripts/setup test
	@scripts/test

.PHONY: test-deploy
test-deploy: ## deploy everything to a local AWS with the real CDK, and use it there
	@scripts/test-deploy

.PHONY: check
check: ## format, clippy, licences and sources, generated files
	@scripts/setup check
	@scripts/check

.PHONY: soak
soak: ## long simulations (SEEDS=100000)
	@scripts/soak

.PHONY: mutants
mutants: ## mutation testing of the library's core
	@scripts/mutants

.PHONY: fuzz
fuzz: ## longer runs of the property tests (CASES=100000)
	@scripts/fuzz

.PHONY: bench
bench: ## benchmarks, compared side by side (BENCH=tokens for one, ARGS="--seconds 5" for its options)
	@scripts/bench $(BENCH) $(if $(ARGS),-- $(ARGS))

# --- ship it ----------------------------------------------------------------

.PHONY: generate build sessync synth diff deploy rollout rollback smoke secrets destroy cost
generate: ## CDK constructs from infra/templates
	@scripts/generate
build: ## all functions for Lambda (ARCH=arm64|x86_64)
	@scripts/build
sessync: ## sessync as one static binary (target/sessync/sessync)
	@scripts/build-sessync
synth: ## synthesize ENV
	@ENV=$(ENV) scripts/synth
diff: ## what a deployment to ENV would change
	@ENV=$(ENV) scripts/diff
deploy: ## deploy ENV (dev, staging, prod, or local: no account needed)
	@ENV=$(ENV) scripts/deploy
rollout: ## move traffic to the new versions of ENV, watched (ARGS="--plan", "--function slack-events", "--abort")
	@ENV=$(ENV) scripts/rollout rollout $(ARGS)
rollback: ## take the last rollout of ENV back (ARGS="--function slack-events")
	@ENV=$(ENV) scripts/rollout rollback $(ARGS)
smoke: ## call the deployed functions of ENV
	@ENV=$(ENV) scripts/smoke
secrets: ## set the secrets of ENV, without echo
	@ENV=$(ENV) scripts/secrets
destroy: ## remove ENV
	@ENV=$(ENV) scripts/destroy
cost: ## what a month of ENV costs
	@ENV=$(ENV) scripts/cost
