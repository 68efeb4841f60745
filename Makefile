# Every target installs what it needs into .venv by itself.
PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test check lint clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.user ## Serve the built-in pair, stream a completion, compare non-SI, SI and DSI
	$(BIN)/dsi-ray demo

test: .venv/.dev .venv/.prometheus ## Run the tests
	$(MAKE) --no-print-directory --jobs 2 test-ray test-rest

# Ray lowers the priority of its workers: the other tests go below that, or few cores starve them.
# Those that start a Ray of their own for a moment are on either side, so that both take as long.
.PHONY: test-ray test-rest
test-ray: .venv/.dev
	$(BIN)/python -m pytest -m ray

test-rest: .venv/.dev
	nice -n 19 $(BIN)/python -m pytest -m 'not ray'

check: .venv/.dev ## What must pass before a commit: style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lint: .venv/.dev ## Mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove the virtual environment and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/.user: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP_INSTALL) -e .
	@touch $@

.venv/.dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP_INSTALL) -e '.[test,check,plots,gguf]'
	@touch $@ .venv/.user

# For the tests that ask a real one, which are skipped where apt-get cannot get it. Nothing is
# installed outside .venv, and nothing starts.
.venv/.prometheus: | .venv/.dev
	@mkdir -p .venv/prometheus && cd .venv/prometheus && \
		{ timeout 60 apt-get -qq download prometheus && dpkg -x prometheus_*.deb .; \
		rm -f prometheus_*.deb; } > /dev/null 2>&1 || true
	@touch $@
