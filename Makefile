# Everything that a person does here. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
ENV ?= dev
ARGS ?=

.PHONY: help
help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# --- try it -----------------------------------------------------------------

.PHONY: dev
dev: ## run the whole system on this machine (ARGS="--memory --port 9001")
	@scripts/setup build
	@cargo build --locked --workspace --bin ichido-local --bin sessync
	@exec "$${CARGO_TARGET_DIR:-target}/debug/ichido-local" $(ARGS)

.PHONY: demo
demo: ## three handlers under the same faults: what exactly once means, in 90 seconds (ARGS="--seed 7 --json", ARGS=--help)
	@scripts/setup demo
	@cargo build --locked --workspace --bin duel
	@exec "$${CARGO_TARGET_DIR:-target}/debug/duel" $(ARGS)

# --- prove it ---------------------------------------------------------------

.PHONY: test
test: ## run all tests: Rust, infrastructure, resolvers, browser
	@scripts/setup test
	@scripts/test

.PHONY: test-deploy
test-deploy: ## deploy everything to a local AWS with the real CDK, and test it there
	@scripts/test-deploy

.PHONY: check
check: ## check format, lints, licences and sources, templates, generated files
	@scripts/setup check
	@scripts/check

.PHONY: advisories
advisories: ## ask the public databases about vulnerabilities in dependencies (needs the network)
	@scripts/advisories

.PHONY: explore
explore: ## play the library's calls in every order within a bound (ARGS="--replay LINE", ARGS=--help)
	@cargo build --release --locked --quiet -p proof --bin explore
	@exec "$${CARGO_TARGET_DIR:-target}/release/explore" $(ARGS)

.PHONY: scale
scale: ## raise the load of each application until AWS's limits refuse something, in simulated time (ARGS="--app tokens --seed 7", ARGS=--help)
	@cargo build --release --locked --quiet --workspace --bin scale
	@exec "$${CARGO_TARGET_DIR:-target}/release/scale" $(ARGS)

.PHONY: soak
soak: ## run long simulations, explore for an hour, then a storm of all faults for an hour (PART=storm for one; scripts/soak says more)
	@scripts/soak $(PART)

.PHONY: mutants
mutants: ## test the tests of the library's core with mutations (FILE=run for one module)
	@scripts/mutants

.PHONY: fuzz
fuzz: ## look for inputs that break a promise (SECONDS=60 per target, TARGET=jwt for one)
	@scripts/setup fuzz
	@scripts/fuzz $(or $(SECONDS),60) $(TARGET)

.PHONY: bench
bench: ## run the benchmarks (BENCH=tokens for one, ARGS="--seconds 5" for its options)
	@scripts/bench $(BENCH) $(if $(ARGS),-- $(ARGS))

# --- ship it ----------------------------------------------------------------

.PHONY: release
release: ## build a release into target/release-VERSION: binaries, packages, SBOMs, checksums (VERSION=0.1.0)
	@scripts/release $(VERSION)

.PHONY: generate build sessync synth diff deploy rollout rollback smoke secrets accept destroy cost
generate: ## generate CDK constructs from infra/templates
	@scripts/generate
build: ## build all functions for Lambda (ARCH=arm64|x86_64)
	@scripts/build
sessync: ## build sessync as one static binary (target/sessync/sessync)
	@scripts/build-sessync
synth: ## write the CloudFormation templates of ENV to target/cdk.out
	@ENV=$(ENV) scripts/synth
diff: ## show what a deployment to ENV would change
	@ENV=$(ENV) scripts/diff
deploy: ## deploy ENV (dev, staging, prod, or local: no account needed)
	@ENV=$(ENV) scripts/deploy
rollout: ## move traffic to the new versions of ENV and watch the alarms (ARGS="--plan", "--function slack-events", "--abort")
	@ENV=$(ENV) scripts/rollout rollout $(ARGS)
rollback: ## take the last rollout of ENV back (ARGS="--function slack-events")
	@ENV=$(ENV) scripts/rollout rollback $(ARGS)
smoke: ## call every deployed function of ENV, without effects
	@ENV=$(ENV) scripts/smoke
accept: ## prove on the deployed ENV what only its own place can prove (not prod)
	@ENV=$(ENV) scripts/accept $(ARGS)
secrets: ## set the missing secrets of ENV, without echo (SECRET=/name replaces one)
	@ENV=$(ENV) scripts/secrets
destroy: ## remove ENV
	@ENV=$(ENV) scripts/destroy
cost: ## print what a month of ENV costs
	@ENV=$(ENV) scripts/cost
