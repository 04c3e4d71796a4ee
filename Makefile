# `make help` lists everything. Settings: make train ARGS="--env starpilot --seed 1"
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
DURATION ?= 1.0
EPISODES ?= 100
SUITE_DURATION ?= 0.02
RUN := runs/quickstart_$(shell date +%Y%m%d-%H%M%S)

.DEFAULT_GOAL := help
.PHONY: quickstart install test test-slow test-cluster test-slurm lint help train train-timed train-fast train-impala train-impala-timed \
	train-parallel train-parallel-timed train-impala-parallel train-impala-parallel-timed train-a2c train-a3c \
	evaluate evaluate-ppo evaluate-impala benchmark compare demo tensorboard bench bench-cluster profile prove-learning \
	prove-parallel check-scale lock docs clean

$(VENV)/.installed: requirements.txt requirements-dev.txt pyproject.toml setup.sh $(wildcard src/rlcb/kernels/*.h src/rlcb/kernels/*.cpp)
	@./setup.sh $(VENV) --dev

quickstart: $(VENV)/.installed  ## Train PPO on CoinRun for two minutes, evaluate it on known and on unseen levels
	@$(BIN)/rlcb train --algo ppo --env coinrun --duration 0.0334 --output-dir $(RUN)
	@$(BIN)/rlcb evaluate --checkpoint $(RUN) --levels both --num-episodes $(EPISODES)
	@echo
	@echo "Everything is in $(RUN): the agent in checkpoints/, its curves in logs/, the numbers in training_summary.json."
	@echo "Try next:"
	@echo "  make tensorboard                              look at the curves"
	@echo "  $(BIN)/rlcb train --resume $(RUN) --duration 0.2    train on, to 12 minutes"
	@echo "  $(BIN)/rlcb train --algo impala --env starpilot --duration 0.1    another algorithm, another game"
	@echo "  make help                                     everything else"

install: $(VENV)/.installed  ## Make .venv and install pinned dependencies

test: lint  ## Lint, types, layers and tests
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

test-slow: $(VENV)/.installed  ## More faults, at more moments (about ten minutes)
	$(BIN)/python -m pytest -m slow $(ARGS)

test-cluster: $(VENV)/.installed  ## Training over two simulated hosts (root, iproute2, openssh-server; about twelve minutes)
	$(BIN)/python -m pytest -m cluster $(ARGS)

test-slurm: $(VENV)/.installed  ## Job scripts under a real Slurm (root, slurm-wlm, munge; about ten minutes) and a stand-in for PBS
	$(BIN)/python -m pytest -m slurm -rs $(ARGS)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

train: $(VENV)/.installed  ## Train PPO for 25 million steps
	$(BIN)/python train_ppo_sequential.py $(ARGS)

train-timed: $(VENV)/.installed  ## Train PPO for DURATION hours (1)
	$(BIN)/python train_timed.py --duration $(DURATION) --output-dir ./benchmarks/sequential_1h $(ARGS)

train-fast: $(VENV)/.installed  ## Train PPO for 100,000 steps: a minute or two
	$(BIN)/rlcb train --algo ppo --total-timesteps 100_000 $(ARGS)

train-impala: $(VENV)/.installed  ## Train IMPALA for 25 million steps
	$(BIN)/python train_impala_sequential.py $(ARGS)

train-impala-timed: $(VENV)/.installed  ## Train IMPALA for 30 minutes
	$(BIN)/python train_impala_sequential_timed.py --duration 0.5 --output-dir ./benchmarks/impala_seq_30min $(ARGS)

train-parallel: $(VENV)/.installed  ## Train PPO in 4 processes for DURATION hours (1)
	$(BIN)/python train_parallel_timed.py --duration $(DURATION) --output-dir ./benchmarks/parallel_1h $(ARGS)

train-parallel-timed: train-parallel  ## The same

train-impala-parallel: $(VENV)/.installed  ## Train IMPALA with 4 actors for 25 million steps
	$(BIN)/python train_impala_parallel.py $(ARGS)

train-impala-parallel-timed: $(VENV)/.installed  ## Train IMPALA with 4 actors for 30 minutes
	$(BIN)/python train_impala_parallel_timed.py --duration 0.5 --output-dir ./benchmarks/impala_par_30min $(ARGS)

train-a2c: $(VENV)/.installed  ## Train A2C for 25 million steps (ARGS="--mode parallel" in several processes)
	$(BIN)/python train_a2c.py $(ARGS)

train-a3c: $(VENV)/.installed  ## Train A3C with 4 workers for 25 million steps
	$(BIN)/python train_a3c.py $(ARGS)

evaluate: $(VENV)/.installed  ## Evaluate the newest checkpoint
	$(BIN)/rlcb evaluate --num-episodes $(EPISODES) --deterministic $(ARGS)

evaluate-ppo: $(VENV)/.installed  ## Evaluate the newest PPO checkpoint
	$(BIN)/rlcb evaluate --algorithm ppo --num-episodes $(EPISODES) --deterministic $(ARGS)

evaluate-impala: $(VENV)/.installed  ## Evaluate the newest IMPALA checkpoint
	$(BIN)/rlcb evaluate --algorithm impala --num-episodes $(EPISODES) --deterministic $(ARGS)

benchmark: $(VENV)/.installed  ## PPO against IMPALA, one process against several, SUITE_DURATION hours each (0.02)
	$(BIN)/rlcb suite config/suites/workflow.yaml --duration $(SUITE_DURATION) --num-episodes $(EPISODES) --output benchmarks/workflow_$(SUITE_DURATION)h $(ARGS)

tensorboard: $(VENV)/.installed  ## Show the curves of all runs in a browser
	$(BIN)/tensorboard --reload_multifile true --logdir_spec runs:runs,benchmarks:benchmarks,logs:logs $(ARGS)

compare: $(VENV)/.installed  ## Compare what train-timed and train-parallel have left
	$(BIN)/python compare_results.py --sequential ./benchmarks/sequential_1h --parallel ./benchmarks/parallel_1h \
		--output ./benchmarks/comparison.png $(ARGS)

demo: $(VENV)/.installed  ## Three short runs, evaluation, videos and a report, in under ten minutes
	$(BIN)/rlcb suite config/suites/demo.yaml
	$(BIN)/rlcb compare benchmarks/demo --output benchmarks/demo/comparison.png > /dev/null
	$(BIN)/rlcb report benchmarks/demo --videos --output benchmarks/demo/report.html

bench: $(VENV)/.installed  ## Speed and memory against Stable-Baselines3 and Sample Factory, in one run (90 minutes); writes docs/results/
	$(BIN)/python -m benchmarks.bench $(ARGS)

bench-cluster: $(VENV)/.installed  ## What travels between hosts and what it costs, over slow networks (root and iproute2; half an hour); writes docs/results/
	$(BIN)/python -m benchmarks.strategies $(ARGS)

profile: $(VENV)/.installed  ## Where the time of learning and acting goes, by operation
	$(BIN)/python -m benchmarks.profiling

prove-learning: $(VENV)/.installed  ## PPO against its published CoinRun curve (half an hour); writes docs/results/
	$(BIN)/python -m benchmarks.published_curve $(ARGS)

prove-parallel: $(VENV)/.installed  ## All algorithms, one process and several, three seeds, ten minutes each (4 hours); writes docs/results/
	$(BIN)/rlcb suite config/suites/learning.yaml $(ARGS)
	$(BIN)/python -m benchmarks.learning_pairs

check-scale: $(VENV)/.installed  ## Predictions of rlcb scale against runs (root and iproute2; 30 minutes); writes docs/results/
	$(BIN)/python -m benchmarks.scale_check $(ARGS)

docs: $(VENV)/.installed  ## Write the configuration reference in docs/ anew
	$(BIN)/python tools/reference.py

lock: $(VENV)/.installed  ## Write requirements*.txt anew from what is installed
	$(BIN)/python tools/lock.py

clean:  ## Remove environments and caches; runs stay
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build src/*.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

help:  ## This list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F '\t' '{printf "  make %-20s %s\n", $$1, $$2}'
