# Everything a person needs. `make` alone lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

TEXT     ?= The quick brown fox jumps over the lazy dog.
VOICE    ?=
OUT      ?= speech.wav
LISTEN   ?= 127.0.0.1:50051
MODEL    ?= embedded
MINUTES  ?= 10
STREAMS  ?= 16
SEED     ?=
SECONDS  ?= 60
CUDA_ARCH ?= 90
DEVICE   ?= 0

BIN      := $(or $(CARGO_TARGET_DIR),target)/release
# Built sooner than those, and together with the tests: see [profile.dev] in Cargo.toml.
QUICK    := $(or $(CARGO_TARGET_DIR),target)/debug
CARGO    := cargo
export PATH := $(HOME)/.cargo/bin:$(PATH)

.PHONY: help speak serve test test-all check bench bench-cost bench-service soak fuzz cluster cluster-check cluster-test deploy-test train-embedded fmt proto studio setup build quick cuda gpu-folder gpu-check gpu-bench

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install what building needs (system packages, Rust toolchain), if missing
	@scripts/setup

build: setup ## Build omni-server and omni-client for use (release)
	@$(CARGO) build --release --locked -p omni-server -p omni-cli

quick: setup ## Build both for a look and for the tests: soon built, slower (debug)
	@$(CARGO) build --locked -p omni-server -p omni-cli

cuda: setup ## Build both for NVIDIA devices, with machine code for CUDA_ARCH=90 (several with commas) and PTX for all from 8.0 on
	@home="$$(scripts/cuda-toolkit)" && CUDA_HOME="$$home" CUDA_ARCH="$(CUDA_ARCH)" \
	  $(CARGO) build --release --locked -p omni-server -p omni-cli --features omni-server/cuda

gpu-folder: setup ## Build omni-gpu for NVIDIA devices, in a folder that can be carried to one; prints where it is
	@CUDA_ARCH="$(CUDA_ARCH)" scripts/gpu-folder

gpu-check: setup ## Check what NVIDIA device DEVICE=0 computes, in at most eight minutes; prints Markdown (exit code 3: no device)
	@folder="$$(CUDA_ARCH="$(CUDA_ARCH)" scripts/gpu-folder)" && "$$folder/omni-gpu" check --embedded models/embedded/checkpoint --device "$(DEVICE)"

gpu-bench: setup ## Measure NVIDIA device DEVICE=0, in at most eight minutes; prints Markdown for docs/benchmarks.md (exit code 3: no device)
	@folder="$$(CUDA_ARCH="$(CUDA_ARCH)" scripts/gpu-folder)" && "$$folder/omni-gpu" bench --embedded models/embedded/checkpoint --device "$(DEVICE)"

speak: export SPEAK_TEXT := $(value TEXT)
speak: quick ## Speak TEXT="..." into OUT=speech.wav with a server of its own
	@BIN="$(QUICK)" MODEL="$(MODEL)" VOICE="$(VOICE)" OUT="$(OUT)" scripts/speak

serve: build ## Run omni-server on LISTEN=127.0.0.1:50051 with MODEL=embedded
	@exec "$(BIN)/omni-server" --model "$(MODEL)" --listen "$(LISTEN)"

test: ## Run every test
	@scripts/setup test
	@OMNI_REQUIRE_CLIENTS="$$(scripts/setup clients-required)" OMNI_REQUIRE_BROWSER="$$(scripts/setup browser-required)" CARGO="$(CARGO)" scripts/test

test-all: ## Run every test, and those that take minutes: proxies before the server, Open WebUI in a browser
	@scripts/setup test && scripts/setup proxies && scripts/setup open-webui
	@scripts/weights || echo "weights: they cannot be had: tests with the weights of others are skipped" >&2
	@OMNI_REQUIRE_OPEN_WEBUI="$(if $(CI),1)" OMNI_REQUIRE_CLIENTS="$$(scripts/setup clients-required)" OMNI_REQUIRE_BROWSER="$$(scripts/setup browser-required)" CARGO="$(CARGO)" scripts/test all

check: setup ## Formatting, lints, docs, licences, generated files
	@scripts/check

bench: build ## Measure the pipeline and its parts; prints Markdown for docs/benchmarks.md
	@BIN="$(BIN)" scripts/bench
	@BIN="$(BIN)" scripts/bench-cost

bench-cost: build ## Measure what statistics cost: on against off, and memory over ten minutes
	@BIN="$(BIN)" scripts/bench-cost

bench-service: setup ## Measure idle sessions, cancels, a shutdown under load and overload; prints Markdown for docs/benchmarks.md
	@$(CARGO) build --release --locked -p omni-server -p omni-tools --bins
	@"$(BIN)/omni-service"

soak: setup ## Load of every kind for MINUTES=10 with STREAMS=16; fails if a rule is broken or anything is left behind
	@$(CARGO) build --release --locked -p omni-server -p omni-tools --bins
	@"$(BIN)/omni-soak" --minutes "$(MINUTES)" --streams "$(STREAMS)" $(if $(SEED),--seed "$(SEED)")

cluster: ## Build omni-server-cluster, the server in many processes or on many machines (server/cluster/README.md)
	@scripts/setup cluster
	@cd server/cluster && $(CARGO) build --workspace --release --locked

deploy-test: cluster ## Check deploy/: the chart against the schemas of Kubernetes, the units, and parts out of a root file system
	@deploy/test/run

cluster-check: ## Build server/cluster/ and test its processes that find each other by a folder (part of cluster-test; CI runs it)
	@scripts/setup cluster
	@cd server/cluster && $(CARGO) fmt --all --check && $(CARGO) test --workspace --locked --test parts -- speech:: secrets::

cluster-test: ## Test omni-server-cluster: processes that find each other, are killed, drained and refused
	@scripts/setup cluster
	@cd server/cluster && $(CARGO) fmt --all --check && $(CARGO) clippy --workspace --locked --all-targets -- -D warnings && $(CARGO) test --workspace --locked

fuzz: setup ## Look for input that breaks a parser, SECONDS=60 for each (installs cargo-fuzz and a nightly compiler)
	@SECONDS_EACH="$(SECONDS)" scripts/fuzz

train-embedded: build ## Train the embedded voice again (hours; Python, PyTorch)
	@models/embedded/train.sh

studio: ## Build the page for browsers after changing its sources (Node and npm)
	@scripts/setup studio && cd server/studio/page && npm run --silent build

proto: ## Regenerate the protocol code after changing a .proto file
	@$(CARGO) run --quiet --locked -p omni-proto --example regenerate_proto
	@scripts/setup client omni && .tools/clients/omni/bin/python client/python/generate.py

fmt: ## Format the sources
	@$(CARGO) fmt --all
