# The two commands of the README are `make demo` and `make test`; everything else serves them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PEERS  := .venv-peers
FOLDERS := capture ingest views sql reports

.PHONY: help install demo test verify check format bench clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

install: $(STAMP)  ## make .venv and install xlahouse with all extras that run here (torch: 8 GB)

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[capture,compile,mcp,serve,spark,test]'
	@touch $@

demo: $(STAMP)  ## capture, ingest, query and report on this machine; pages land in demo/site
	$(BIN)/xlahouse demo --out demo

# Groups and long tests first (tests/conftest.py), whatever their number of tests. Programs that tests
# start compile their modules once if bytecode may be kept.
# A worker more than cores, as tests wait for Spark, Chromium and captures.
WORKERS := $(shell $(PYTHON) -c 'import os; print(min((os.cpu_count() or 1) + 1, 4))')
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest \
	-n $(WORKERS) --dist loadgroup --no-loadscope-reorder

test: $(STAMP)  ## run the tests that find ordinary mistakes: at most 8 minutes on 2 cores
	$(PYTEST) -m "not verify" $(ARGS)

verify: $(STAMP)  ## run the long tests on samples of this commit: 20 minutes; ALL=1 on everything
	$(PYTEST) -m verify $(ARGS)

check: $(STAMP) .types/xlahouse  ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(addprefix .types/xlahouse/,$(FOLDERS))

format: $(STAMP)  ## rewrite the code as `make check` wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) $(PEERS)/.installed  ## run the quick benchmarks; ARGS=--full all of them
	$(BIN)/python -m tests.bench $(ARGS)

# What we are measured against: its packages are of other versions than ours.
$(PEERS)/.installed:
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet xprof HolisticTraceAnalysis
	@touch $@

# xlahouse.<folder> is a mapped namespace; type checkers need to see it as folders.
.types/xlahouse: Makefile
	@rm -rf .types && mkdir -p $@
	@for folder in $(FOLDERS); do ln -s ../../$$folder $@/$$folder; done

clean:  ## remove what the targets made, .venv included
	rm -rf $(VENV) $(PEERS) .types demo build dist *.egg-info
