# Duly in a few commands. `make setup` needs python3 (3.11 or newer) with venv and pip, nothing else.

PYTHON ?= python3
UV_VERSION := 0.13.7
BIN := .venv/bin
STAMP := .venv/.ready
# The metadata of an editable installation keep the version that stood in the source then.
OWN := .venv/.installed
# What one process compiles is kept for the hundreds that the tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup browser mail-server pictures demo test check quick hook slow breaks conformance mutants fire proof where docs site bench crash-window lock clean
.DEFAULT_GOAL := test

setup: $(OWN)

# uv only reads the lock; pip fetches, so whatever index, proxy or certificate this machine's pip
# is set up for is the one that is used (docs/decisions/006-hatchling-and-uv.md).
$(STAMP): pyproject.toml uv.lock Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Duly needs Python 3.11 or newer; say PYTHON=python3.x to make.")'
	@echo "1/4 Making a virtual environment in .venv"
	@$(PYTHON) -m venv .venv
	@echo "2/4 Fetching uv $(UV_VERSION), which reads uv.lock"
	@$(BIN)/pip install --quiet --quiet uv==$(UV_VERSION)
	@$(BIN)/uv export --quiet --frozen --no-hashes --no-emit-project --output-file .venv/requirements.txt
	@echo "3/4 Installing what Duly and its tests need (the longest part: about half a minute)"
	@$(BIN)/pip install --quiet --quiet --requirement .venv/requirements.txt
	@touch $@

$(OWN): $(STAMP) src/duly/__init__.py
	@echo "4/4 Installing Duly itself"
	@$(BIN)/pip install --quiet --quiet --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "Ready: .venv/bin/duly"

# See it survive a crash: a mailbox, two workflows, a table, and a host that is killed on the way;
# then a page on which you kill it yourself.
demo: setup
	$(BIN)/duly demo

test: setup browser mail-server
	TEST_SOME=1 $(BIN)/python -m pytest -n 5 -p tests.spread

check: test

# The Chromium that the tests of the page drive: found, or fetched (tests/browser/chromium.py).
browser: setup
	@$(BIN)/python -m tests.browser.chromium

# The Dovecot that the tests of mail speak with: found, or fetched (tests/connectors/dovecot.py).
mail-server: setup
	@$(BIN)/python -m tests.connectors.dovecot

# The pictures of docs/page.md, made by the test that walks through every page, and that of the demo.
# `DEMO_DBOS=…/bin/python make pictures` has DBOS beside it.
pictures: setup browser
	PAGE_PICTURES=docs/pictures DEMO_INVOICES=100 $(BIN)/python -m pytest tests/browser

# Half a minute between two edits: format, lint, types, layers, rules, and the tests nearest to what
# changed against `main` (tests/quick.py).
quick: setup
	@$(BIN)/python -m tests.quick

# Before every commit of this clone: the same without tests. `rm "$$(git rev-parse --git-path hooks/pre-commit)"` ends it.
hook: setup
	@hook="$$(git rev-parse --git-path hooks/pre-commit)" && mkdir -p "$$(dirname "$$hook")" && \
	printf '%s\n' '#!/bin/sh' '[ -x .venv/bin/python ] || { echo "No .venv here: make setup, or git commit --no-verify" >&2; exit 1; }' \
		'exec .venv/bin/python -m tests.quick --commit' > "$$hook" && chmod +x "$$hook" && echo "Installed: $$hook"

# The official conformance suite of MCP, against the server and the connector; fetches Node and the suite.
conformance: setup
	$(BIN)/python -m tests.mcp.conformance

# What the tests cost in processor time, the dearest first.
slow: setup
	$(BIN)/python -m pytest -n 2 -p tests.spread -p tests.cost

# Every deliberate break must turn its tests red.
breaks: setup
	$(BIN)/python -m tests.breaks

# The source changed in one place at a time: a test must notice each change (docs/mutants.md).
mutants: setup
	$(BIN)/python -m tests.mutants

# Hosts that are killed, stopped, told to stop and forked; effects are counted outside. Minutes.
fire: setup
	$(BIN)/python -m tests.fire --rounds 300
	$(BIN)/python -m tests.fire --rounds 300 --threads
	$(BIN)/python -m tests.fire.mail --rounds 200

# Everything above and more, for hours, into one report of exactly what was run (tests/proof):
# `make proof PROOF_MINUTES=600`. A part that is done is not run again for the same commit.
proof: setup browser mail-server
	$(BIN)/python -m tests.proof

# `make where C8` prints the home, the tests and the sentence of a rule.
ifeq (where,$(firstword $(MAKECMDGOALS)))
RULES := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
ifneq (,$(RULES))
.PHONY: $(RULES)
$(RULES): ; @:
endif
endif

where: setup
	@$(BIN)/python -m tests.where $(RULES)

# Write the pages that are made from tables: docs/lifecycle.md.
docs: setup
	$(BIN)/python -m tests.rules.lifecycle_page

# Every page as a site that opens from its folder, below dist/site; a link that leads nowhere fails.
site: setup
	@$(BIN)/python -m tests.site

# Whole runs beside DBOS, Restate and huey, then the bus, the store and one step; figures, no gates.
# What it fetches stays below .bench. `$(BIN)/python -m bench --write` keeps the figures for the pages.
bench: setup
	$(BIN)/python -m bench

crash-window: setup
	$(BIN)/python -m bench.crash_window

lock: setup
	$(BIN)/uv lock --upgrade

clean:
	rm -rf .bench .proof .venv duly-demo .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
