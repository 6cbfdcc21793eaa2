"""Tests what all experiments have in common, and how their results are stored."""

import json
import math

import pytest
import torch

from glassformer.experiments import NAMES, Experiment, Run, experiment, spread, stored
from glassformer.experiments.experiment import rounded, thinned
from tools import experiments as tool


@pytest.mark.parametrize("name", NAMES)
def test_every_run_of_an_experiment_is_kept_and_nothing_else(name):
    assert [run.settings for run in stored(name)] == list(experiment(name).runs)


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_of_a_run_are_what_json_gives_back(name):
    runs = experiment(name).runs
    assert json.loads(json.dumps(runs)) == list(runs)
    assert len({json.dumps(settings) for settings in runs}) == len(runs)


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_says_what_it_asks(name):
    one = experiment(name)
    assert one.name == name
    assert one.question.endswith("?")


NOT_MEASURED = [
    ("activations", {"feedforward": "tanh"}, "feedforward='tanh' is not one of 'no network', 'linear'"),
    ("clinic", {"bug": "typo"}, "bug='typo' is not one of 'none', 'no-scale'"),
    ("depth", {"n_layers": 3}, "n_layers=3 is not one of 1, 2, 4, 8"),
    ("drowned", {"positions": "alibi", "scale": 1.0, "steps": 10}, "positions='alibi'"),
    ("families", {"way": "encoder", "steps": 1}, "way='encoder'"),
    ("late_mask", {"bug": "no-scale"}, "bug='no-scale'"),
    ("leak", {"n_layers": 1, "positions": "rotary"}, "positions='rotary'"),
    ("longer", {"decay": "step"}, "decay='step' is not one of"),
    ("longer", {"optimizer": "SGD"}, "optimizer='SGD' is not one of"),
    ("long_texts", {"part": "full"}, "part='full' is not one of 'contestants', 'seconds'"),
    (
        "long_texts",
        {"part": "contestants", "contestant": "window"},
        "contestant='window' is not one of 'full'",
    ),
    ("long_texts", {"part": "contestants", "contestant": "full", "more_steps": 1}, "contestant='full'"),
    ("mixtures", {"part": "experts"}, "part='experts' is not one of 'contestants', 'seconds'"),
    (
        "mixtures",
        {"part": "contestants", "contestant": "sparse"},
        "contestant='sparse' is not one of 'dense'",
    ),
    ("norm_gradients", {"placement": "pre", "init": "glorot"}, "init='glorot' is not one of 'ours', 'gpt2'"),
    ("own_text", {"characters": 0}, "characters=0"),
    ("own_text", {"characters": 10**7}, r"characters=10000000, but the corpus has \d+ to learn from"),
    ("pitfalls", {"bug": "padding-attended", "model": "rope"}, "bug='padding-attended' is not one of 'none'"),
    ("pitfalls", {"bug": "no-scale", "model": "gpt"}, "model='gpt' is not one of 'rope'"),
    ("positions", {"positions": "rotary", "length": 64}, "positions='rotary'"),
    ("positions", {"positions": "rope", "length": 100}, "length=100"),
    ("recall", {"positions": "rotary", "length": 64}, "positions='rotary'"),
    ("recipes", {"part": "lader"}, "part='lader' is not one of 'ladder'"),
    ("residual", {"adds": 0.5, "n_layers": 2, "learning_rate": 1e-3}, r"adds=0\.5"),
    ("sampling", {"part": "songs", "writer": "text", "setting": None}, "part='songs'"),
    ("sampling", {"part": "texts", "writer": "nobody", "setting": None}, "writer='nobody'"),
    ("scale", {"d_head": 4, "scaled": 0.5, "learning_rate": 1e-3}, r"scaled=0\.5"),
    ("schedules", {"peak": 1e-3, "warmup": 0, "decay": "exponential"}, "decay='exponential'"),
    ("state_costs", {"room": "torch", "model": "states"}, "room='torch' is not one of 'scratch', 'nn'"),
    ("state_costs", {"room": "nn", "model": "state"}, "model='state' is not one of 'states'"),
    ("states", {"part": "full"}, "part='full' is not one of 'pairs', 'copies', 'text', 'seconds'"),
    ("states", {"part": "pairs", "contestant": "delta"}, "contestant='delta' is not one of 'full', 'hybrid'"),
    ("tokens", {"vocab_size": None, "equal": "time"}, "equal='time' is not one of 'work', 'text'"),
    ("tying", {"vocab_size": 512, "arm": "tied", "steps": 1}, "vocab_size=512"),
    ("tying", {"vocab_size": None, "arm": "untied, narrower", "steps": 1}, "arm='untied, narrower'"),
    ("worth", {"model": "large"}, "model='large' is not one of"),
]


@pytest.mark.parametrize(("name", "settings", "says"), NOT_MEASURED)
def test_what_cannot_be_measured_is_refused(name, settings, says):
    with pytest.raises((ValueError, TypeError), match=says):
        experiment(name).measure(**settings, seed=0)


def test_of_the_books_model_only_its_parts_are_measured():
    with pytest.raises(ValueError, match="part='lense' is not one of 'lens'"):
        experiment("inside").measure(part="lense")


def test_an_unknown_experiment_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"name='posititions' .*recipes"):
        experiment("posititions")
    with pytest.raises(ValueError, match="name='posititions'"):
        stored("posititions")


def test_runs_are_chosen_by_their_settings():
    runs = stored("recipes", part="ladder", seed=1)
    assert {run.settings["seed"] for run in runs} == {1}
    with pytest.raises(ValueError, match=r"no run of 'recipes' was made with \{'seed': 99\}"):
        stored("recipes", seed=99)


def test_the_spread_of_seeds():
    assert spread([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)
    assert f"{spread([1.5, 1.25]):.2f}" == "1.38 (1.25 to 1.50)"
    with pytest.raises(ValueError, match="values is empty"):
        spread([])


def test_numbers_are_kept_to_five_digits_and_what_is_no_number_as_none():
    assert rounded({"a": [1.234567, (math.nan, 3)], "b": "x", "c": -math.inf, "d": True}) == {
        "a": [1.2346, [None, 3]],
        "b": "x",
        "c": None,
        "d": True,
    }


def test_a_thinned_curve_is_of_means():
    assert thinned([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 4) == [0.5, 2.5, 4.5, 6.5]
    assert thinned([3.0, 1.0], 40) == [3.0, 1.0]


def test_a_setting_of_none_is_one_that_was_not_given():
    run = Run({"steps": 3}, {})
    assert run.has(steps=3, seed=None)
    assert not run.has(steps=None)


def test_a_short_run_keeps_what_it_is_asked_for():
    one = Experiment(
        name="x", question="?", measure=lambda **given: given, runs=(), short={"steps": 1, "width": 2}
    )
    assert one.measure_shortly(seed=3, width=4) == {"steps": 1, "width": 4, "seed": 3}


# The tool


RUNS = ({"seed": 0}, {"seed": 1}, {"seed": 2})


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Makes an experiment's runs in this process, and returns the settings of those that were made, and the file."""
    file, asked = tmp_path / "kept" / "x.json", []

    def measure(seed):
        asked.append(seed)
        if seed == 1 and not file.exists():
            raise ZeroDivisionError
        return {"loss": seed / 3}

    class Pool:
        def __init__(self, *_, **__):
            pass

        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *_: None  # noqa: E731
        shutdown = lambda self, **_: None  # noqa: E731

        def submit(self, function, *arguments):
            from concurrent.futures import Future

            future = Future()
            try:
                future.set_result(function(*arguments))
            except ZeroDivisionError as error:
                future.set_exception(error)
            return future

    monkeypatch.setattr(tool, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(tool, "place", lambda name: file)
    monkeypatch.setattr(tool, "cpu", lambda: "AVX")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # the tool sets it: put it back

    def make(runs=RUNS, again=False):
        one = Experiment(name="x", question="?", measure=measure, runs=runs, short={})
        asked.clear()
        return tool.make(one, 1, again), list(asked)

    return make, file


def kept(file):
    return [Run(**run) for run in json.loads(file.read_text())["runs"]]


def test_a_failed_run_is_reported_and_made_the_next_time_and_only_it(made, capsys):
    make, file = made
    assert make() == (1, [0, 1, 2])
    assert "seed 1: ZeroDivisionError()" in capsys.readouterr().out
    assert [run.settings["seed"] for run in kept(file)] == [0, 2]
    assert make() == (0, [1])
    assert kept(file) == [Run({"seed": seed}, {"loss": rounded(seed / 3)}, "AVX") for seed in range(3)]
    assert list(file.parent.iterdir()) == [file]


def test_runs_that_are_no_part_of_it_any_more_are_dropped_and_others_made_again_on_demand(made):
    make, file = made
    make()
    make()
    written = file.read_text().replace('"numpy": "', '"numpy": "0.')
    file.write_text(written.replace(', "cpu": "AVX"', ""))  # nor was this kept, at first
    assert make(({"seed": 2}, {"seed": 0})) == (0, [])
    assert [run.settings["seed"] for run in kept(file)] == [2, 0]
    assert '"numpy": "0.' in file.read_text()  # nothing was made with this one
    assert [run.cpu for run in kept(file)] == [None, None]
    assert make(({"seed": 2}, {"seed": 0}), again=True) == (0, [2, 0])
    assert [run.cpu for run in kept(file)] == ["AVX", "AVX"]


@pytest.mark.parametrize(
    ("kind", "has", "said"),
    [
        ("AVX2", {"avx2": True}, "AVX2 without bfloat16"),
        ("AVX512", {"avx512_f": True}, "AVX512 without bfloat16"),
        ("AVX512", {"avx512_bf16": True}, "AVX512 with bfloat16"),
        ("AVX2", {"avx512_bf16": True}, "AVX2 without bfloat16"),  # switched off by an environment variable
        ("DEFAULT", {"bf16": True}, "DEFAULT with bfloat16"),  # ARM's
    ],
)
def test_the_kind_of_a_cpu(monkeypatch, kind, has, said):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: kind)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has)
    assert tool.cpu() == said
