# `make` alone says what there is. Needs Python 3.11 or newer and make; everything else is installed
# into $(VENV) the first time, and again when a requirements file changes.

PYTHON ?= python3
VENV ?= .venv
PORT ?= 8000
MCP_PORT ?= 8808
SECONDS ?= 60
BENCH ?=
TORTURE ?=
WRITE ?=

BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
SUITES_STAMP := $(VENV)/.installed-suites
# An environment for each client of tests/clients: they want different releases of one SDK.
CLIENTS := .venv-clients
CLIENT_STAMPS := $(patsubst tests/clients/requirements/%.txt,$(CLIENTS)/%/.installed,\
	$(wildcard tests/clients/requirements/*.txt))
# An environment for LangGraph, which our flow is measured beside.
FLOW_VENV := .venv-bench
FLOW_STAMP := $(FLOW_VENV)/.installed
# An environment for Sphinx.
DOCS_VENV := .venv-docs
DOCS_STAMP := $(DOCS_VENV)/.installed
# An environment for what builds and checks a release.
RELEASE_VENV := .venv-release
RELEASE_STAMP := $(RELEASE_VENV)/.installed
SOURCES := bench docs elicitation project tests manage.py

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-times coverage lint format docs release-check clients conformance bench bench-flow torture mutations soak messages screenshots clean

help: ## print this list
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+): .*## (.*)/  make \1|\2/' \
		| awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

demo: $(RUN_STAMP) ## start the demo site, its worker and its MCP server (PORT=8000 MCP_PORT=8808)
	@$(BIN)/python -m project.demo_run --port $(PORT) --mcp-port $(MCP_PORT)

test: lint ## run lint, then the tests on SQLite
	$(BIN)/python -m pytest --numprocesses auto
	@echo "Left to .ci/run: PostgreSQL, MariaDB, the newest Django, make coverage, make conformance," \
		"make clients. Left to you: make docs, make release-check."

# To count lines takes two thirds as long again as to run them, so it is done once, where no browser
# and no other process is: they are not counted anyway.
coverage: $(DEV_STAMP) ## run the tests that need no other process, and say what they cover
	$(BIN)/python -m pytest --numprocesses auto --cov --cov-report= $(addprefix --ignore=tests/,\
		api/test_hostile.py api/test_race.py api/test_schemathesis.py awkward browser docs exactness \
		mutations ops/test_killed.py ops/test_soak.py others project store/test_processes.py \
		tasks/test_workers.py test_hostile.py test_html.py torture workers/test_killed.py \
		workers/test_restarts.py workers/test_stopping.py)
	$(BIN)/coverage report --skip-covered --fail-under=95
	$(BIN)/coverage report --include='elicitation/core/*' --fail-under=100

test-fast: $(DEV_STAMP) ## run the tests without processes, browsers and servers, on SQLite
	env -u DATABASE_URL $(BIN)/python -m pytest -q -m "not slow" --numprocesses 2
	@echo "Left to make test: lint, and the tests with the marker slow (tests/fast.py)."

test-times: $(DEV_STAMP) ## say how much processor time make test-fast and make test take
	$(BIN)/python -m tests.times test-fast test

lint: $(DEV_STAMP) ## check style, types, imports, migrations and Django's own checks
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -W error manage.py makemigrations --check --dry-run --settings tests.settings
	$(BIN)/python -W error manage.py check --fail-level WARNING --settings tests.settings

format: $(DEV_STAMP) ## put the code in the project's style
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

docs: $(DOCS_STAMP) ## make the site of the documentation in build/docs, and check its links
	$(DOCS_VENV)/bin/python -m docs.site.build

release-check: $(RELEASE_STAMP) ## build the package, look into it, and try it out in empty environments
	$(RELEASE_VENV)/bin/python -m tests.release

conformance: $(SUITES_STAMP) ## run MCP's conformance suite, and the test servers that MCP publishes
	$(BIN)/python -m pytest -m conformance tests/conformance tests/others

bench: $(DEV_STAMP) ## measure each operation beside a baseline (BENCH="--check --write")
	$(BIN)/python -m bench $(BENCH)

bench-flow: $(FLOW_STAMP) ## measure a whole flow beside LangGraph (DATABASE_URL=postgres://…)
	$(FLOW_VENV)/bin/python -m bench.flow --check $(BENCH)

clients: $(DEV_STAMP) ## run every MCP client against servers of every era, and servers of tasks (-j2; WRITE=1: the docs)
	@$(MAKE) --no-print-directory $(CLIENT_STAMPS)
	$(BIN)/python -m pytest tests/tasks/run.py
	WRITE=$(WRITE) $(BIN)/python -m pytest tests/clients/run.py

torture: $(DEV_STAMP) ## let processes fight over answers and be killed (SECONDS=60, TORTURE="…")
	$(BIN)/python -m tests.torture --seconds $(SECONDS) $(TORTURE)

mutations: $(DEV_STAMP) ## break rules of the code one by one: the tests must notice each
	$(BIN)/python -m tests.mutations

soak: $(DEV_STAMP) ## run outbox, cleaning up and eight workers beside each other for a minute
	SOAK_SECONDS=60 $(BIN)/python -m pytest -s tests/ops/test_soak.py

messages: $(DEV_STAMP) ## collect the strings to translate, and compile the catalogues (needs gettext)
	cd elicitation && $(abspath $(BIN))/django-admin makemessages -l de -l fr -l ar --no-wrap \
		--no-location --no-obsolete
	cd elicitation && $(abspath $(BIN))/django-admin compilemessages

screenshots: $(DEV_STAMP) ## take the pictures of the documentation anew (needs Chromium)
	$(BIN)/python -m project.screenshots

clean: ## remove the environment, the demo's database and what tests and tools left
	rm -rf $(VENV) $(CLIENTS) $(FLOW_VENV) $(DOCS_VENV) $(RELEASE_VENV) .venv-newest .coverage .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache .schemathesis .suites build dist htmlcov node_modules \
		reports staticfiles test-results db.sqlite3 db.sqlite3-shm db.sqlite3-wal .secret_key
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip and not python, which is there even where the venv failed half-way for want of ensurepip.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "This project needs Python 3.11 or newer, and '$(PYTHON)' is not" \
			"($$($(PYTHON) --version 2>&1 | head -n 1)). Name another: make PYTHON=python3.12 …" >&2; \
		exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUN_STAMP): requirements.txt | $(BIN)/pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(DEV_STAMP): requirements.txt requirements-dev.txt | $(BIN)/pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

$(SUITES_STAMP): requirements-conformance.txt tests/conformance/packages.py | $(DEV_STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-conformance.txt
	$(BIN)/python -m tests.conformance.packages
	@touch $@

$(CLIENTS)/%/.installed: tests/clients/requirements/%.txt tests/clients/app.txt | $(DEV_STAMP)
	@rm -rf $(@D)
	@$(PYTHON) -m venv --without-pip $(@D)
	@$(BIN)/python -m pip --python $(@D)/bin/python install --quiet --disable-pip-version-check \
		--no-compile -r $<
	@touch $@

$(FLOW_STAMP): bench/requirements-flow.txt requirements.txt | $(BIN)/pip
	@rm -rf $(@D)
	@$(PYTHON) -m venv --without-pip $(@D)
	@$(BIN)/python -m pip --python $(@D)/bin/python install --quiet --disable-pip-version-check \
		--no-compile -r $<
	@touch $@

$(DOCS_STAMP): requirements-docs.txt requirements.txt | $(BIN)/pip
	@rm -rf $(@D)
	@$(PYTHON) -m venv --without-pip $(@D)
	@$(BIN)/python -m pip --python $(@D)/bin/python install --quiet --disable-pip-version-check \
		--no-compile -r $<
	@touch $@

$(RELEASE_STAMP): requirements-release.txt | $(BIN)/pip
	@rm -rf $(@D)
	@$(PYTHON) -m venv --without-pip $(@D)
	@$(BIN)/python -m pip --python $(@D)/bin/python install --quiet --disable-pip-version-check \
		--no-compile -r $<
	@touch $@
