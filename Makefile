# Everything people do twice. `make help` lists the targets; all of them need only make, Python 3.11 or 3.12, and pip.
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
SHELL := /bin/sh

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install $(if $(CI),--quiet)
PYTEST := $(BIN)/python -m pytest --durations=15
# One for each processor, up to eight: they and what they start keep it busy, and each takes a GB and the time to load
# all libraries. A file's tests stay together, because they share what its fixtures made.
WORKERS ?= logical

# Stamps say what an environment already holds, so that nothing is installed twice.
MADE := $(VENV)/.made
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
LONG := $(VENV)/.long

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

$(MADE): scripts/make_venv.sh
	@sh scripts/make_venv.sh $(PYTHON) $(VENV)
	@touch $@

$(RUNTIME): $(MADE) requirements.txt requirements.lock
	$(PIP) -r requirements.txt -c requirements.lock
	@touch $@

$(DEV): $(RUNTIME) requirements-dev.txt requirements-quality.txt
	$(PIP) -r requirements-dev.txt -c requirements.lock
	$(PIP) --no-deps -r requirements-quality.txt
	@touch $@

$(LONG): $(DEV) requirements-long.txt
	$(PIP) -r requirements-long.txt -c requirements.lock
	@touch $@

.PHONY: venv
venv: $(RUNTIME) ## create .venv and install the pinned requirements (PYTHON=python3.12 to choose)

.PHONY: run
run: $(RUNTIME) ## start the web app (ARGS="--port 8000" for its flags)
	$(BIN)/python app.py $(ARGS)

.PHONY: demo
demo: $(RUNTIME) ## prepare, train, export and speak with the bundled voice, headless
	$(BIN)/python -m utils.cli.demo $(ARGS)

# Tests start hundreds of processes, each of which would compile the same modules again.
test test-bare test-long: export PYTHONDONTWRITEBYTECODE =

.PHONY: test
test: lint ## lint, types and every test that is neither slow nor needs a GPU
	$(PYTEST) -n $(WORKERS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder -m "not slow and not gpu" $(ARGS)

.PHONY: test-bare
test-bare: $(DEV) ## the tests that use espeak-ng, a browser or the word list, as where these are not installed
	$(BIN)/python scripts/without_programs.py $(PYTEST) -m "programs and not slow and not gpu" $(ARGS) \
		$$(grep -rl --include='test_*.py' mark.programs tests)

.PHONY: test-long
test-long: $(LONG) check-py312 ## the rest: slow tests, 2,000 made-up inputs, GPU tests where there is a GPU, Python 3.12
	$(PYTEST) -m "slow or gpu or hypothesis" --hypothesis-profile long $(ARGS)

.PHONY: lint
lint: $(DEV) ## ruff (rules and format) and mypy, changing nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: format
format: $(DEV) ## let ruff mend and format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: messages
messages: $(MADE) ## extract the page's texts into webui/text/messages.pot, for translators
	$(BIN)/python -m scripts.messages

.PHONY: lock
lock: $(MADE) ## resolve the requirements afresh into requirements.lock
	$(BIN)/python scripts/lock.py write

.PHONY: check-py312
check-py312: ## check that the same pins resolve on Python 3.12 (PYTHON312=PATH to choose)
	@sh scripts/check_py312.sh

# The other rows of the table: the same without --only.
HEADLINES = stock "no switch" "SDPA$$" "SDPA + mixed precision$$" "all three$$" "LoRA$$"
.PHONY: bench
bench: $(RUNTIME) ## measure training beside stock coqui-tts on the CPU: speed and memory at batch 4 and 2, loading
	$(BIN)/python -m benchmarks.train_step --size full --device cpu --only $(HEADLINES)
	$(BIN)/python -m benchmarks.train_step --size full --device cpu --batch-size 2 --only stock "SDPA$$" "mixed precision$$" \
		--out benchmarks/results/train_step_full_cpu_batch2.json
	$(BIN)/python -m benchmarks.dataloader --device cpu

.PHONY: bench-all
bench-all: $(RUNTIME) ## quality of the switches and error of preflight (hours)
	$(BIN)/python -m benchmarks.quality --jobs 2
	$(BIN)/python -m benchmarks.preflight_error

.PHONY: gpu-check
gpu-check: $(RUNTIME) ## check every CUDA path in ten minutes; report in gpu-check/ (ARGS="--pretend-gb 8" plays a small card)
	$(BIN)/python -m benchmarks.gpu_check $(ARGS)

.PHONY: bench-gpu
bench-gpu: $(RUNTIME) ## the same on a CUDA GPU: the whole table of docs/performance.md
	$(BIN)/python -m benchmarks.train_step --size full --device cuda
	$(BIN)/python -m benchmarks.dataloader --device cuda --size full --out benchmarks/results/dataloader_cuda.json

.PHONY: bench-prepare
bench-prepare: $(RUNTIME) ## measure preparation; results go to benchmarks/results
	$(BIN)/python -m benchmarks.prepare $(ARGS)

.PHONY: bench-vocabulary
bench-vocabulary: $(RUNTIME) ## measure extending a vocabulary: time, memory, tokens a word; results go to benchmarks/results
	$(BIN)/python -m benchmarks.vocabulary $(ARGS)

.PHONY: bench-webui
bench-webui: $(DEV) ## measure the page: start, first paint, weight, polls by 1 and 50 clients, memory
	$(BIN)/python -m benchmarks.webui $(ARGS)

.PHONY: bench-speak
bench-speak: $(RUNTIME) ## measure speaking beside stock coqui-tts: one stream, long text, clients, first sound, quality by precision (DEVICE=cuda on a GPU)
	$(BIN)/python -m benchmarks.speak_quality
	$(BIN)/python -m benchmarks.speak --device $(or $(DEVICE),cpu) $(ARGS)

.PHONY: bench-quality
bench-quality: $(RUNTIME) ## fine-tune voices of ARGS="--recordings FOLDER ..." on 3 and 10 minutes x 3 seeds beside stock's recipe and measure how they speak (hours; it resumes)
	$(PIP) --no-deps -r requirements-quality.txt
	$(BIN)/python -m benchmarks.voices $(ARGS)

STARTER_WORK ?= $(HOME)/.cache/xtts-finetuning-studio/starter
.PHONY: starter
starter: $(RUNTIME) ## make the starter base from nothing in STARTER_WORK (needs espeak-ng, wordnet-base, wamerican-small, npm; about 40 hours of a core; it resumes)
	$(PIP) --no-deps -r recipes/base/requirements.txt -r requirements-quality.txt
	mkdir -p $(STARTER_WORK) && cd $(STARTER_WORK) && (test -f kokoro-js-1.2.1.tgz || npm pack kokoro-js@1.2.1)
	$(BIN)/python -m recipes.base.run --work $(STARTER_WORK) --voices $(STARTER_WORK)/kokoro-js-1.2.1.tgz $(ARGS)

.PHONY: clean-venv
clean-venv: ## remove .venv
	rm -rf $(VENV)
