# make demo   a real search on this machine, then the screen          make demo ARGS=--headless   the same without a screen
# make test   what CI runs, without a GPU                             make check                  style, types, floors
PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
# One known-good CPU torch where the interpreter has none; a torch that is already there is used as it is.
TORCH ?= torch==2.13.0

.PHONY: demo test check bench gpu clean

demo: $(VENV)/installed
	$(BIN)/kerneltui demo $(ARGS)

# Two workers: one for all that asks a judge, one for the rest; then what has to have the machine (tests/conftest.py).
test: $(VENV)/installed-dev
	$(BIN)/python -m pytest tests -m "not gpu and not bench and not alone" -n 2 --dist loadgroup
	$(BIN)/python -m pytest tests -m "alone and not gpu and not bench"

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/installed-dev
	$(BIN)/python -m pytest tests -m bench

gpu: $(VENV)/installed-dev
	$(BIN)/python -m pytest tests -m gpu

# A torch of the interpreter's own is hundreds of MB that need not come twice.
$(VENV)/bin/python:
	@if $(PYTHON) -c "import torch" 2>/dev/null; then $(PYTHON) -m venv --system-site-packages $(VENV); \
	else $(PYTHON) -m venv $(VENV); fi

$(VENV)/installed: $(VENV)/bin/python pyproject.toml
	@$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/python -m pip install --quiet "$(TORCH)"
	@$(BIN)/python -m pip install --quiet --editable .
	@if command -v nvidia-smi >/dev/null 2>&1; then $(BIN)/python -c "import cuda.bindings" 2>/dev/null \
	  || $(BIN)/python -m pip install --quiet --editable ".[cuda]"; fi
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	@$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
