# Two commands on a fresh machine: `make show` and `make test`. Both install what they need into .bootstrap/ and .venv/.

PYTHON ?= python3
UV := .bootstrap/bin/uv
BIN := .venv/bin
# of these the packages of uv.lock have wheels, so that no compiler is needed; uv fetches one where none is installed
export UV_PYTHON ?= >=3.11,<3.15
NO_PYTHON = { echo "zonewise needs Python 3.11 to 3.14, and its packages. uv downloads them, where it can: install python3.11 or \
later with the package manager of this system, or let UV_PYTHON_INSTALL_MIRROR and UV_DEFAULT_INDEX name mirrors" >&2; exit 2; }
PREFIX ?= /opt/zonewise
# the newest tag without its v, as the package has it
VERSION ?= $(or $(shell git describe --tags --abbrev=0 2>/dev/null | sed 's/^v//'),0.1.0.dev0)
SOURCES := agent common sandbox scheduler tests benchmarks tools demo

# tests start hundreds of interpreters, and pytest rewrites 400 modules in each worker: bytecode spares most of that
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help show demo demo-agent proto dashboards reference man test test-quick test-long test-random test-mutants test-servers check docs format image image-lock chart install.yaml \
        bench bench-agent bench-fit bench-extender bench-queue bench-client bench-churn bench-placing bench-live bench-up bench-page \
        page-pictures soak install clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

show: .venv/.run ## Draw this machine
	@$(BIN)/zonewise show

demo: .venv/.demo ## Run a whole cluster on this machine, with jobs that arrive: zonewise up --load ai --speed 60
	@$(BIN)/zonewise up --load ai --speed 60

demo-agent: .venv/.dev ## Watch the agent at work, between a simulated kubelet and an API server in memory
	@$(BIN)/python -m demo

proto: .venv/.dev ## Generate the code of proto/ anew
	$(BIN)/python tools/generate_proto.py

dashboards: .venv/.run ## Write the Grafana dashboards anew
	$(BIN)/python -m tools.dashboards

reference: .venv/.dev ## Generate docs/reference anew
	$(BIN)/python -m tools.generate_reference

man: .venv/.dev ## Generate the man pages into build/man/man1
	$(BIN)/python -m tools.generate_manpages build/man/man1

test-quick: .venv/.dev ## Pass the unit tests with one example of each property: about a minute
	HYPOTHESIS_PROFILE=quick $(BIN)/pytest tests/unit tests/house

test: .venv/.dev ## Pass every test but the long ones
	$(BIN)/pytest

test-long: .venv/.dev ## Pass the tests that take minutes: many more examples of damage
	HYPOTHESIS_PROFILE=long $(BIN)/pytest -m long --timeout 1800

test-random: .venv/.dev ## Pass every test but the long ones, on three times as many examples that were never tried before
	HYPOTHESIS_PROFILE=random $(BIN)/pytest

test-mutants: .venv/.dev ## Change the code of admission, backfill and quota, and list what no unit test notices: hours, or SAMPLE=60 SEED=0 AREAS=quota SINCE=HEAD
	nice -n 19 $(BIN)/python -m tools.mutants --sample $(or $(SAMPLE),0) --seed $(or $(SEED),0) $(if $(AREAS),--areas $(AREAS)) $(if $(SINCE),--since $(SINCE))

test-servers: .venv/.dev ## Pass the tests on a real API server, kubelet and kube-scheduler; fail where a binary is absent
	ZONEWISE_REQUIRE_SERVERS=1 $(BIN)/pytest tests/contract tests/e2e

check: .venv/.dev docs ## Lint, formatting, types, import rules, pages
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/pyright
	$(BIN)/lint-imports

docs: .venv/.dev ## Build the pages into site/; a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

format: .venv/.dev ## Format the code
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

bench: .venv/.dev ## Measure speed and memory of all, as ratios in one run; writes docs/performance.md
	$(BIN)/python -m benchmarks.report all

bench-agent: .venv/.dev ## ... of discovery and the agent
	$(BIN)/python -m benchmarks.report agent

bench-fit: .venv/.dev ## ... of verdicts: one node, all nodes, gangs
	$(BIN)/python -m benchmarks.report fit

bench-extender: .venv/.dev ## ... of the extender under load, and under a real kube-scheduler
	$(BIN)/python -m benchmarks.report extender

bench-queue: .venv/.dev ## ... of the planner, placement, Kueue's generators, logs
	$(BIN)/python -m benchmarks.report queue

bench-client: .venv/.dev ## Measure our API client against the official one; takes minutes
	$(BIN)/python -m benchmarks.kube_client

bench-churn: .venv/.dev ## ... of CPUs in use under churn, on real kubelets and a real kube-scheduler
	$(BIN)/python -m benchmarks.report churn

bench-placing: .venv/.dev ## ... of packing bursts, and of the time from room to binding
	$(BIN)/python -m benchmarks.report placing

bench-live: .venv/.dev ## ... of the live queue, under Kueue's generator on a real API server
	$(BIN)/python -m benchmarks.report live

bench-up: .venv/.dev ## ... of the start of `zonewise up`
	$(BIN)/python -m benchmarks.report up

bench-page: .venv/.dev ## ... of the page in a headless browser, on a large cluster
	$(BIN)/python -m benchmarks.report page

page-pictures: .venv/.dev ## Make the pictures of docs/guides/page.md; Debian's packages chromium and chromium-driver are needed
	$(BIN)/python -m tools.page_pictures

soak: .venv/.dev ## Run all on real programs for 20 minutes, under faults and hostile clients; writes docs/performance.md
	$(BIN)/python -m benchmarks.report soak

install: $(UV) ## Install for service into PREFIX, bytecode compiled
	UV_PROJECT_ENVIRONMENT=$(PREFIX) $(UV) sync --quiet --locked --no-default-groups --extra agent --no-editable --compile-bytecode
	@echo "installed: $(PREFIX)/bin/zonewise"

image: .venv/.run ## Build the OCI images of the agent and the scheduler, for amd64 and arm64, without a daemon: dist/images
	SOURCE_DATE_EPOCH=$(shell git log -1 --format=%ct 2>/dev/null || echo 0) $(BIN)/python -m tools.image build --version $(VERSION)

image-lock: .venv/.run ## Renew the Debian packages of the images; needs Debian's gpgv and dpkg
	$(BIN)/python -m tools.image lock

chart: .venv/.run ## Make the Helm chart and install*.yaml for `kubectl apply -f` from manifests/, with REGISTRY=ghcr.io/example: dist/
	$(BIN)/python -m tools.chart --version $(VERSION) --registry "$(REGISTRY)"

install.yaml: chart

clean: ## Remove what was set up
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
