# Every target a newcomer needs. `make` alone lists them.
# A machine with Rust and a C compiler is enough; what a target needs beyond that, it installs or names.

.DEFAULT_GOAL := help
SHELL := /bin/sh

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
MCTUNNEL := $(TARGET_DIR)/release/mctunnel

# run-hub, run-agent
DATA_DIR ?= .run/hub
HUB_ADDR_FROM := $(origin HUB_ADDR)
HUB_ADDR ?= 127.0.0.1:8443
CLUSTER_NAME ?= cluster-a
JOIN ?=
ALLOW ?=
ALLOW_SERVICE ?= default/helloworld
PIN_SERVICE ?=
INSECURE_SERVICE ?=
# Who the clients of run-hub are and what they may do: from elsewhere they reach the service helloworld, from this machine all that
# the agents' lists allow. To ask nobody, on this machine alone: HUB_TRUST=--insecure-no-auth HUB_FLAGS="--gateway-listen 127.0.0.1:8080"
HUB_TRUST ?= --auth-config quickstart/auth.yaml --policy quickstart/policy.yaml
HUB_FLAGS ?=
AGENT_FLAGS ?=
# A bundle that is given knows its hub; HUB_ADDR is for another way there
AGENT_HUB = $(if $(JOIN),$(if $(filter-out undefined,$(HUB_ADDR_FROM)),--hub "$(HUB_ADDR)"),--hub "$(HUB_ADDR)")
JOIN_FILE = $(or $(JOIN),$(DATA_DIR)/joins/$(CLUSTER_NAME).join)

# bench, e2e, soak, fuzz
BENCH_FLAGS ?=
E2E_FLAGS ?=
# The binary that e2e checks; one that is given is not built
E2E_BINARY ?=
SOAK_MINUTES ?= 10 120
TARGET ?= decode
SECONDS ?= 60

# mutants, charts
MUTANTS ?=
HELM ?= helm

.PHONY: help demo test lint build bench e2e e2e-ready e2e-trust e2e-reports front h2spec scan slow browser floods blackhole stalled report-soak soak run-hub run-agent \
	join fuzz mutants charts docs install-tools clean

help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## A hub, two agents and a request through the tunnel (DEMO_ONCE=1 ends after it)
	$(MCTUNNEL) demo

test: ## Every test, doc tests included
	$(CARGO) test --workspace --locked

lint: ## Format, clippy, tidy, rustdoc; warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) run --quiet --locked --package xtask -- tidy
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

build: ## The release binary
	$(CARGO) build --release --locked --package mctunnel-cli

run-hub: build ## A hub on 0.0.0.0:8080 and 8443 (DATA_DIR=.run/hub, HUB_TRUST=quickstart/..., HUB_FLAGS=...)
	$(MCTUNNEL) hub --data-dir "$(DATA_DIR)" $(HUB_TRUST) $(HUB_FLAGS)

run-agent: build join ## An agent (HUB_ADDR=host:8443 CLUSTER_NAME=cluster-a [JOIN=file] [ALLOW_SERVICE="ns/name ..."])
	$(MCTUNNEL) agent --join "$(JOIN_FILE)" $(AGENT_HUB) $(foreach target,$(ALLOW),--allow "$(target)") \
		$(foreach service,$(ALLOW_SERVICE),--allow-service "$(service)") $(foreach pin,$(PIN_SERVICE),--pin-service "$(pin)") \
		$(foreach service,$(INSECURE_SERVICE),--insecure-service "$(service)") $(AGENT_FLAGS)

# Without JOIN=file the hub is taken to be on this machine: the cluster is added in its data directory, once.
join: build
	@if [ -n "$(JOIN)" ] || [ -s "$(JOIN_FILE)" ]; then exit 0; fi; \
	umask 077; mkdir -p "$(DATA_DIR)/joins" && set -x && \
	$(MCTUNNEL) cluster add "$(CLUSTER_NAME)" --data-dir "$(DATA_DIR)" --hub "$(HUB_ADDR)" --out "$(JOIN_FILE)"

bench: build ## The performance table, against direct loopback and two haproxy with TLS (BENCH_FLAGS=--quick)
	@if ! [ -x /usr/sbin/haproxy ] && ! command -v haproxy >/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends haproxy; \
		else \
			echo "make bench compares with haproxy, which is not installed: sudo apt-get install haproxy" >&2; exit 1; \
		fi; \
	fi
	$(CARGO) run --release --locked --package bench -- all $(BENCH_FLAGS)

e2e: $(if $(E2E_BINARY),,build) ## kubectl against two real Kubernetes clusters (root; the first run builds them; E2E_FLAGS=--connect)
	e2e/build
	MCTUNNEL="$(or $(E2E_BINARY),$(MCTUNNEL))" e2e/run $(E2E_FLAGS)

e2e-trust: $(if $(E2E_BINARY),,build) ## Who gets in, and as whom, with a real OpenID provider and two real clusters (root, node)
	e2e/build
	MCTUNNEL="$(or $(E2E_BINARY),$(MCTUNNEL))" e2e/trust $(E2E_FLAGS)

e2e-reports: build ## Events, logs and services of the hub, with two real clusters while hub and agent are killed (root)
	e2e/build
	MCTUNNEL="$(MCTUNNEL)" e2e/reports $(E2E_FLAGS)

e2e-ready: ## Whether the tools of e2e are in the cache, by exit status
	@e2e/build --check

report-soak: ## A million reports with 200 kills and cuts, each stored once; not part of CI (REPORT_RECORDS, REPORT_FAULTS, REPORT_SEED)
	REPORT_RECORDS=$${REPORT_RECORDS:-1000000} REPORT_FAULTS=$${REPORT_FAULTS:-200} \
		$(CARGO) test --release --locked --package mctunnel-cli --test process reports::t41

front: build ## Ambiguous requests through haproxy, nginx, envoy and traefik in front of the gateway (T15; FRONT_FLAGS=--allow-missing)
	e2e/front/run tools
	MCTUNNEL="$(MCTUNNEL)" e2e/front/run smuggling $(FRONT_FLAGS)

h2spec: build ## The conformance suite of HTTP/2 against the gateway (T39)
	e2e/front/run tools
	MCTUNNEL="$(MCTUNNEL)" e2e/front/run h2spec

scan: build ## What the listeners say to old TLS, weak suites and wrong certificates: openssl, sslscan, testssl.sh (T21, 6 minutes)
	e2e/front/scan tools
	MCTUNNEL="$(MCTUNNEL)" e2e/front/scan tls

slow: build ## Slow clients, and 15,000 of them: slowhttptest and more (T40, 6 minutes)
	e2e/front/scan tools
	MCTUNNEL="$(MCTUNNEL)" e2e/front/scan slow

browser: build ## What pages of other sites can make a real Chromium do at the gateway (T33, T34; node)
	e2e/front/browser/run tools
	MCTUNNEL="$(MCTUNNEL)" e2e/front/browser/run check

floods: ## Each flood of HTTP/2 frames for 30 s, against the gateway and the tunnel listener (T38)
	FLOOD_SECONDS=30 $(CARGO) test --locked --package mctunnel-cli --test process -- --test-threads=1 --nocapture t38

stalled: ## A thousand clients that stop reading an endless body for 60 s (T42)
	STALL_SECONDS=60 $(CARGO) test --locked --package mctunnel-cli --test process -- --test-threads=1 --nocapture t42

blackhole: build ## A GiB each way while packets are lost; peers that are gone without a word are found in time (root, 6 minutes)
	MCTUNNEL="$(MCTUNNEL)" e2e/blackhole

soak: build ## Watches of 10 minutes and 2 hours against real Kubernetes; not part of CI (root; SOAK_MINUTES=10)
	e2e/build
	MCTUNNEL="$(MCTUNNEL)" e2e/soak $(SOAK_MINUTES)

fuzz: ## Fuzz one target (TARGET=decode SECONDS=60); needs `make install-tools`
	@command -v cargo-fuzz >/dev/null || { echo "cargo-fuzz is not installed: make install-tools" >&2; exit 1; }
	$(CARGO) +nightly fuzz run $(TARGET) -- -max_total_time=$(SECONDS)

mutants: ## Break what parses targets, names users and decides; the tests must notice (MUTANTS=policy)
	$(CARGO) run --quiet --locked --package mutants -- $(MUTANTS)

charts: build ## Render the Helm charts and have the binary read what they say (HELM=helm)
	MCTUNNEL="$(MCTUNNEL)" HELM="$(HELM)" deploy/helm/check

docs: ## The API documentation, in target/doc
	$(CARGO) doc --workspace --no-deps --locked

install-tools: ## What fuzz and the dependency check need beyond Rust
	rustup toolchain install nightly --profile minimal
	$(CARGO) install --locked cargo-deny cargo-fuzz

clean: ## Remove what was built and what run-hub stored
	$(CARGO) clean
	rm -rf .run
