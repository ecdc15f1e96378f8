# On a fresh machine, start with `make show` or `make test`. Both install what they need into .bootstrap/ and .venv/.

PYTHON ?= python3
UV := .bootstrap/bin/uv
BIN := .venv/bin
# For these versions the packages in uv.lock have wheels, so no compiler is needed. uv downloads a Python if none is installed.
export UV_PYTHON ?= >=3.11,<3.15
NO_PYTHON = { echo "zonewise needs Python 3.11 to 3.14, and its packages. uv downloads them if it can. Otherwise, install python3.11 or \
later with this system's package manager, or set UV_PYTHON_INSTALL_MIRROR and UV_DEFAULT_INDEX to mirrors" >&2; exit 2; }
PREFIX ?= /opt/zonewise
# The newest tag without its v, like the package's version.
VERSION ?= $(or $(shell git describe --tags --abbrev=0 2>/dev/null | sed 's/^v//'),0.1.0.dev0)
SOURCES := agent common sandbox scheduler tests benchmarks tools demo

# Tests start hundreds of interpreters, and pytest rewrites 400 modules in each worker; bytecode files avoid most of that work.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help show demo demo-agent proto dashboards reference man test test-quick test-long test-random test-mutants test-servers check docs format image image-lock chart install.yaml \
        bench bench-agent bench-fit bench-extender bench-queue bench-client bench-churn bench-placing bench-live bench-up bench-page \
        page-pictures soak soak-queue install clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

show: .venv/.run ## Draw the topology of this machine
	@$(BIN)/zonewise show

demo: .venv/.demo ## Run a simulated cluster with arriving jobs: zonewise up --load ai --speed 60
	@$(BIN)/zonewise up --load ai --speed 60

demo-agent: .venv/.dev ## Watch the agent run with a simulated kubelet and an in-memory API server
	@$(BIN)/python -m demo

proto: .venv/.dev ## Regenerate the code for proto/
	$(BIN)/python tools/generate_proto.py

dashboards: .venv/.run ## Regenerate the Grafana dashboards
	$(BIN)/python -m tools.dashboards

reference: .venv/.dev ## Regenerate docs/reference
	$(BIN)/python -m tools.generate_reference

man: .venv/.dev ## Generate the man pages into build/man/man1
	$(BIN)/python -m tools.generate_manpages build/man/man1

test-quick: .venv/.dev ## Run the unit tests with one example of each property: about a minute
	HYPOTHESIS_PROFILE=quick $(BIN)/pytest tests/unit tests/house

test: .venv/.dev ## Run all tests except the long ones
	$(BIN)/pytest

test-long: .venv/.dev ## Run the tests that take minutes: much damage, more published logs, whole charts, queues in memory
	HYPOTHESIS_PROFILE=long $(BIN)/pytest -m long --timeout 1800

test-random: .venv/.dev ## Run all tests except the long ones, with five times as many examples, all of them new, and each fault at each position
	HYPOTHESIS_PROFILE=random $(BIN)/pytest

test-mutants: .venv/.dev ## Mutate the code of admission, backfill and quota, and list the mutants that no unit test detects: hours, or SAMPLE=60 SEED=0 AREAS=quota SINCE=HEAD
	nice -n 19 $(BIN)/python -m tools.mutants --sample $(or $(SAMPLE),0) --seed $(or $(SEED),0) $(if $(AREAS),--areas $(AREAS)) $(if $(SINCE),--since $(SINCE))

test-servers: .venv/.dev ## Run the tests on a real API server, kubelet and kube-scheduler; fail if a binary is absent
	ZONEWISE_REQUIRE_SERVERS=1 $(BIN)/pytest tests/contract tests/e2e

check: .venv/.dev docs ## Check lint, formatting, types, import rules and pages
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/pyright
	$(BIN)/lint-imports

docs: .venv/.dev ## Build the pages in site/; fail on a broken link
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

format: .venv/.dev ## Format the code
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

bench: .venv/.dev ## Measure speed and memory of everything, as ratios within one run; update docs/performance.md
	$(BIN)/python -m benchmarks.report all

bench-agent: .venv/.dev ## ... of discovery and the agent
	$(BIN)/python -m benchmarks.report agent

bench-fit: .venv/.dev ## ... of verdicts: one node, all nodes, gangs
	$(BIN)/python -m benchmarks.report fit

bench-extender: .venv/.dev ## ... of the extender under load, and with a real kube-scheduler
	$(BIN)/python -m benchmarks.report extender

bench-queue: .venv/.dev ## ... of the planner, placement, Kueue's generators, logs
	$(BIN)/python -m benchmarks.report queue

bench-client: .venv/.dev ## Compare the project's API client with the official one; takes minutes
	$(BIN)/python -m benchmarks.kube_client

bench-churn: .venv/.dev ## ... of CPUs in use under churn, with real kubelets and a real kube-scheduler
	$(BIN)/python -m benchmarks.report churn

bench-placing: .venv/.dev ## ... of packing bursts, and of the time from free resources to binding
	$(BIN)/python -m benchmarks.report placing

bench-live: .venv/.dev ## ... of the live queue, with Kueue's generator and a real API server
	$(BIN)/python -m benchmarks.report live

bench-up: .venv/.dev ## ... of the startup of `zonewise up`
	$(BIN)/python -m benchmarks.report up

bench-page: .venv/.dev ## ... of the page in a headless browser, with a large cluster
	$(BIN)/python -m benchmarks.report page

page-pictures: .venv/.dev ## Generate the pictures in docs/guides/page.md; needs Debian's packages chromium and chromium-driver
	$(BIN)/python -m tools.page_pictures

soak: .venv/.dev ## Run everything with real programs for 20 minutes, with faults and hostile clients; update docs/performance.md
	$(BIN)/python -m benchmarks.report soak

soak-queue: .venv/.dev ## ... the same for the queue, with two replicas and simulated nodes
	$(BIN)/python -m benchmarks.report soak-queue

install: $(UV) ## Install the agent into PREFIX, with compiled bytecode
	UV_PROJECT_ENVIRONMENT=$(PREFIX) $(UV) sync --quiet --locked --no-default-groups --extra agent --no-editable --compile-bytecode
	@echo "installed: $(PREFIX)/bin/zonewise"

image: .venv/.run ## Build the OCI images of the agent and the scheduler for amd64 and arm64 in dist/images, without a daemon
	SOURCE_DATE_EPOCH=$(shell git log -1 --format=%ct 2>/dev/null || echo 0) $(BIN)/python -m tools.image build --version $(VERSION)

image-lock: .venv/.run ## Update the Debian packages in the images; needs Debian's gpgv and dpkg
	$(BIN)/python -m tools.image lock

chart: .venv/.run ## Generate the Helm chart and install*.yaml for `kubectl apply -f` in dist/ from manifests/, with REGISTRY=ghcr.io/example
	$(BIN)/python -m tools.chart --version $(VERSION) --registry "$(REGISTRY)"

install.yaml: chart

clean: ## Remove all build outputs and environments
	rm -rf dist site .venv .bootstrap .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(UV): tools/bootstrap.py
	@$(PYTHON) tools/bootstrap.py
	@touch $@

.venv/.run: $(UV) pyproject.toml uv.lock
	@echo "setting up .venv/ ..." >&2
	@$(UV) sync --quiet --locked --no-default-groups --extra agent --inexact || $(NO_PYTHON)
	@touch $@

.venv/.demo: $(UV) pyproject.toml uv.lock
	@echo "setting up .venv/ for a cluster in one process ..." >&2
	@$(UV) sync --quiet --locked --no-default-groups --extra agent --extra scheduler --extra client --extra plot --inexact || $(NO_PYTHON)
	@touch $@ .venv/.run

.venv/.dev: $(UV) pyproject.toml uv.lock
	@echo "setting up .venv/ with the tools for tests and checks ..." >&2
	@$(UV) sync --quiet --locked --extra agent --extra scheduler --extra plot || $(NO_PYTHON)
	@touch $@ .venv/.run
