# Every command but `update` first creates the environment if there is none; `lab` needs less of it than the others. PYTHON=python3.12 chooses the Python, VENV=path the folder.
PYTHON ?= python3
VENV ?= .venv
export VENV

.PHONY: lab update check test test-all book notebooks heights kernel training-lab editor python-for-the-page ledger bench experiments experiments-again models environment

lab:  ## open the book in JupyterLab to read, run and practise
	@$(PYTHON) tools/lab.py

update:  ## get the newest version of the book, and keep your answers and everything else that you wrote
	@$(PYTHON) tools/update.py

check: environment  ## check style, types, contracts, freshness and unit tests, in three minutes
	@$(VENV)/bin/python tools/check.py

test: environment  ## run everything that CI runs; CHAPTER=07 tests one chapter
	@$(VENV)/bin/python tools/test.py $(if $(CHAPTER),--chapter $(CHAPTER))

test-all: test  ## run that and what takes too long for every run: Python in the page, all pages in Firefox, all notebooks in JupyterLab and twice
	@$(VENV)/bin/python tools/assets/pyodide.py
	@$(VENV)/bin/python tools/test.py -m weekly
	@$(VENV)/bin/python -m pytest -q -n 2 tests/experiments --made-again book/again.json
	@$(VENV)/bin/python tools/twice.py

book: environment  ## build the website from the stored notebooks
	@$(VENV)/bin/python tools/book.py

notebooks: environment  ## execute the chapters that a change may affect
	@$(VENV)/bin/python tools/notebooks.py

heights: environment  ## measure the views again: the heights that pages reserve for them
	@$(VENV)/bin/python tools/assets/heights.py

kernel: environment  ## assemble the page's WebAssembly kernel again, after a change to kernel.wat
	@$(VENV)/bin/python tools/assets/kernel.py

training-lab: environment  ## train the small model of TrainingLab again, unbroken and broken (takes half an hour)
	@$(VENV)/bin/python tools/assets/training_lab.py

editor: environment  ## bundle the practice pages' editor again, after a change to book/editor (needs node)
	@$(VENV)/bin/python tools/assets/editor.py

python-for-the-page: environment  ## download Python for the practice pages; the next `make book` puts it beside them
	@$(VENV)/bin/python tools/assets/pyodide.py

ledger: environment  ## measure the parity ledger again and write its page
	@$(VENV)/bin/python tools/ledger.py

bench: environment  ## compare speed and memory with transformers and PyTorch
	@$(VENV)/bin/python benchmarks/bench.py
	@$(VENV)/bin/python benchmarks/learning.py

experiments: environment  ## make the long runs that the chapters show, if their results are missing (takes hours)
	@$(VENV)/bin/python tools/experiments.py

experiments-again: environment  ## repeat one run of every kind and report the differences (takes hours)
	@$(VENV)/bin/python -m tools.again

models: environment  ## train the models that come with the book and write their page
	@$(VENV)/bin/python -m tools.models

environment:
	@$(PYTHON) tools/environment.py --develop
