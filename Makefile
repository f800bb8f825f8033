# make lab    set up .venv, copy new lessons to work/, open lesson 00 there in JupyterLab
# make test   set up .venv, check the code's form, run the tests and every solution
# README.md has the plain pip lines that do the same.

VENV := .venv
BIN := $(VENV)/bin
LAB_READY := $(VENV)/.lab
READY := $(VENV)/.ready
EVERYTHING := lab,dev
FIRST := $(patsubst notebooks/%,work/%,$(firstword $(wildcard notebooks/00_*.ipynb)))
LAB_ARGS ?=
# a few notebooks or test files at a time; the cells of one notebook stay together (conftest.py)
TEST_ARGS ?= -n auto --maxprocesses 8
# hundreds of processes import the course: it is compiled once
unexport PYTHONDONTWRITEBYTECODE
QUICK := -m "not slow"
# packages that no test needs and that take long to import are not found
PYTEST = PYTHONPATH="$(CURDIR)/tests/without$${PYTHONPATH:+:$$PYTHONPATH}" $(BIN)/python -m pytest
FORCE ?=
REPO ?=
TAG ?=

.PHONY: help setup lab test test-all notebooks site bench badges lint release clean

help:
	@echo "make setup      make $(VENV) with everything: what lab needs, and what test needs"
	@echo "make lab        set up, then open your copy of lesson 00, in work/ (LAB_ARGS=--no-browser on a server)"
	@echo "make test       set up, lint, tests, all solutions (TEST_ARGS=... for pytest)"
	@echo "make test-all   the same with students' notebooks, and the tests that take longest"
	@echo "make notebooks  make the notebooks of changed lessons (FORCE=1: all, over edited ones, too)"
	@echo "make site       make build/site/html: lessons to read, glossary, recorded figures"
	@echo "make bench      time the simulator"
	@echo "make badges     REPO=owner/name TAG=v1: change the public address everywhere"
	@echo "make lint       check format and lint, and how many lines each package has"
	@echo "make release    build the wheels, and name what is amiss before a version is published"
	@echo "make clean      remove $(VENV) and caches"

setup: $(READY)

# $(1): extras. Nothing is compiled that nobody imports: a fifth of the disk, a third of the time
define install
@set -e; \
if ! { PYTHON=$(BIN)/python sh tools/find_python.sh && $(BIN)/python -m pip --version; } \
        >/dev/null 2>&1; then \
    python=$$(sh tools/find_python.sh); \
    echo "making $(VENV) with $$($$python --version)"; \
    rm -rf $(VENV); \
    "$$python" -m venv $(VENV); \
fi; \
extra=$$($(BIN)/python -m tools.choose_extra); \
echo "installing the course and what it needs into $(VENV): this takes a minute or so"; \
$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
    -e ".[$(1)$${extra:+,$$extra}]"
endef

INPUTS := pyproject.toml tools/choose_extra.py tools/find_python.sh

$(LAB_READY): $(INPUTS)
	$(call install,lab)
	@touch $@

$(READY): $(INPUTS)
	$(call install,$(EVERYTHING))
	@touch $(LAB_READY) $@

lab: $(LAB_READY)
	$(BIN)/python -m tools.work
	$(BIN)/python -m jupyterlab --LabApp.default_url=/lab/tree/$(FIRST) $(LAB_ARGS)

test: $(READY) lint
	$(PYTEST) --nbval $(QUICK) $(TEST_ARGS)

test-all: $(READY) lint
	$(PYTEST) --nbval $(TEST_ARGS)

lint: $(READY)
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m tests.house.lines
	$(BIN)/python -m tools.prose

notebooks: $(READY)
	$(BIN)/python -m tools.build_notebooks $(if $(FORCE),--force)

$(VENV)/.site: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e ".[site]"
	touch $@

site: $(VENV)/.site
	$(BIN)/python -m tools.site

bench: $(READY)
	$(BIN)/python -m tools.simulator.bench

badges: $(READY)
	$(BIN)/python -m tools.badges $(if $(REPO),--repository $(REPO)) $(if $(TAG),--tag $(TAG))

release: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e ".[release]"
	$(BIN)/python -m tools.release

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache build dist
