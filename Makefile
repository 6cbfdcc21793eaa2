# Each command makes its own environment first, once. PYTHON=python3.12 chooses a Python, VENV=path a place for it.
PYTHON ?= python3
VENV ?= .venv
export VENV

.PHONY: lab check test book notebooks ledger bench experiments experiments-again models environment

lab: environment  ## read, run and practise, in JupyterLab
	@$(VENV)/bin/jupyter-trust notebooks/*.ipynb notebooks/*/*.ipynb >/dev/null
	@$(VENV)/bin/jupyter-lab --allow-root --ServerApp.root_dir=. notebooks/index.ipynb

check: environment  ## style, types, contracts, freshness, unit tests: three minutes
	@$(VENV)/bin/python tools/check.py

test: environment  ## everything that CI runs; CHAPTER=07 for what belongs to one chapter
	@$(VENV)/bin/python tools/test.py $(if $(CHAPTER),--chapter $(CHAPTER))

book: environment  ## the static site, from the stored notebooks
	@$(VENV)/bin/python tools/book.py

notebooks: environment  ## execute the chapters whose text or code changed
	@$(VENV)/bin/python tools/notebooks.py

ledger: environment  ## measure the parity ledger again, and write its page
	@$(VENV)/bin/python tools/ledger.py

bench: environment  ## ratios of speed and memory, beside transformers and PyTorch
	@$(VENV)/bin/python benchmarks/bench.py

experiments: environment  ## the long runs whose results the chapters draw: hours, and only those that are missing
	@$(VENV)/bin/python tools/experiments.py

experiments-again: environment  ## one run of every kind again: hours; says how far it is from what is stored
	@$(VENV)/bin/python -m tools.again

models: environment  ## train the models that come with the book, and write their page
	@$(VENV)/bin/python -m tools.models

environment:
	@$(PYTHON) tools/environment.py
