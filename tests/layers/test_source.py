"""Tests the source that chapters show: no gradients too early, no line too wide, and still the same program."""

import ast
import inspect
import re
import sys
import textwrap

import numpy as np
import pytest

from glassformer import _checks as checks
from glassformer import figures, nn, scratch
from glassformer.figures import source
from glassformer.scratch.layer import save_for_backward
from glassformer.trace import see

from .grid import GRID, SYSTEMS
from .rooms import NN, SCRATCH
from .twins import build, run, texts


@pytest.fixture
def shown(monkeypatch):
    """Returns the text of everything shown during the test."""
    found = []
    monkeypatch.setattr(source, "display", lambda item: found.append(item.data))
    return found


def layers_of(room):
    """Returns every public class and function that a room defines."""
    found = [getattr(room, name) for name in room.__all__]
    return [item for item in found if not getattr(item, "__name__", "").endswith("_backward")]


LAYERS = [*layers_of(scratch), *layers_of(nn)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("item", LAYERS, ids=lambda item: f"{item.__module__}.{item.__name__}")
def test_no_gradient_is_shown_unasked_and_nothing_wider_than_the_column(shown, item):
    optimizer = item.__module__.endswith("optimizer")  # that is about gradients
    if item is not scratch.Layer and not optimizer:
        figures.show_source(item)
        assert not re.search(r"\bgrad\b|backward|\bsaved\b|\bsave_for_backward\(|checks\.|\bsee\(", shown[-1])
    figures.show_source(item, backward=True, checks=True)
    for text in shown:
        assert max(map(len, text.splitlines())) <= source.WIDTH
        ast.parse(text.removeprefix("```python\n").removesuffix("```"))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("config", [GRID[name] for name in SYSTEMS], ids=SYSTEMS)
@pytest.mark.parametrize("room", [SCRATCH, NN], ids=str)
def test_layers_that_run_what_is_shown_of_them_compute_the_same(shown, monkeypatch, room, config):
    read = texts(config, "padded")
    expected = run(room, build(room, config), read)
    for item in layers_of(room.layers):
        if inspect.isclass(item):
            for name, function in vars(executed(item, shown)).items():
                # `super()` would be that of the class that is shown
                if inspect.isfunction(function) and "__class__" not in function.__code__.co_freevars:
                    monkeypatch.setattr(item, name, without_saved(function))
    np.testing.assert_array_equal(run(room, build(room, config), read), expected)


def without_saved(function):
    """Returns what works as the function, which is shown without `saved`, where a subclass passes it on."""
    takes = inspect.signature(function).parameters.values()
    if any(one.name == "saved" or one.kind is one.VAR_POSITIONAL for one in takes):
        return function
    n = sum(one.kind is one.POSITIONAL_OR_KEYWORD for one in takes)
    return lambda *inputs, saved=None, **options: function(*inputs[:n], **options)


def executed(item, shown):
    """Returns the class or function that the shown source defines."""
    figures.show_source(item)
    namespace = dict(vars(sys.modules[item.__module__]))
    exec(shown[-1].removeprefix("```python\n").removesuffix("```"), namespace)
    made, namespace[item.__name__] = (
        namespace[item.__name__],
        item,
    )  # what it calls by its own name is the class
    return made


X, P = np.linspace(-2, 2, 24).reshape(2, 3, 4), np.array([0, 3, 5])
ARGUMENTS = {
    "alibi_slopes": (6,),
    "attention_in_pieces": (X, X, X),
    "causal_mask": (2, 3),
    "cross_entropy": (X, np.array([[0, 1, 3], [2, 2, -100]])),
    "frequencies": (6,),
    "gelu": (X,),
    "gelu_tanh": (X,),
    "merge": (X, X[..., 0], -X, X[..., 1]),
    "merge_heads": (X[None],),
    "orthogonalized": (X[0],),
    "recurrent_chunks": (X, X, X),
    "recurrent_steps": (X, X, X),
    "relative_positions": (P, P),
    "relu": (X,),
    "relu2": (X,),
    "repeat_heads": (X, 2),
    "rotate": (X, np.arange(6.0).reshape(3, 2)),
    "rotation_angles": (P, 4),
    "scaled_dot_product_attention": (X, X, X),
    "sigmoid": (X,),
    "silu": (X,),
    "sinkhorn": (X[:, :3, :3], 2),
    "sinusoidal": (P, 4),
    "softmax": (X,),
    "softmax_with_sinks": (X, np.arange(float(X.shape[0]))),
    "split_heads": (X, 2),
    "stretch": (4,),
    "t5_bucket": (P,),
    "window_mask": (2, 3),
}
RECURRENT = {"log_decay": -np.abs(X), "strength": X[..., :1]}
OPTIONS = {
    "recurrent_chunks": RECURRENT | {"chunk": 2},
    "recurrent_steps": RECURRENT,
    "t5_bucket": {"bidirectional": True},
    "stretch": {"scaling": "yarn", "original_context": 9, "interpolation": 2.0},
    "window_mask": {"window": 2},
}
IN_NUMPY_ALONE = {
    "clip_gradients": "it moves gradients, which test_torch_references compares",
    "in_numpy": "it copies a model, which tests of inside compare",
}


@pytest.mark.parametrize("room", [SCRATCH, NN], ids=str)
def test_functions_are_what_is_shown_of_them(shown, room):
    functions = [item for item in layers_of(room.layers) if inspect.isfunction(item)]
    assert {item.__name__ for item in functions} <= {*ARGUMENTS, *IN_NUMPY_ALONE}
    for item in functions:
        if item.__name__ in ARGUMENTS:
            given, options = ARGUMENTS[item.__name__], OPTIONS.get(item.__name__, {})
            given = [room.array(a) if isinstance(a, np.ndarray) else a for a in given]
            options = {n: room.array(a) if isinstance(a, np.ndarray) else a for n, a in options.items()}
            outputs, expected = executed(item, shown)(*given, **options), item(*given, **options)
            for got, wanted in zip(
                *([x if isinstance(x, tuple) else (x,) for x in (outputs, expected)]), strict=True
            ):
                np.testing.assert_array_equal(room.numpy(got), room.numpy(wanted))


def wide(x, saved=None, *, naïve_and_long_name=None):
    """This summary is much too long for the column of the page, so it has to continue on a second line."""
    checks.floats("x", x)
    if x is None:
        raise ValueError
    for name in "ab":
        checks.floats(name, x)
    # about what is saved
    save_for_backward(saved, x)
    y = wide(
        "naïve …", saved, naïve_and_long_name=naïve_and_long_name
    )  # fmt: skip
    see(y=y)
    return y


def test_what_is_left_out_is_said_and_what_fits_on_a_line_is_on_one(shown):
    figures.show_source(wide)
    assert shown == [
        '''```python
def wide(x, *, naïve_and_long_name=None):
    """This summary is much too long for the column of the page, so it has to
    continue on a second line."""
    y = wide("naïve …", naïve_and_long_name=naïve_and_long_name)  # fmt: skip
    return y

# Left out: checks of arguments, gradients (chapter 09), hooks for looking inside.
```'''
    ]


def test_checks_are_shown_on_request(shown):
    figures.show_source(wide, checks=True)
    assert 'checks.floats("x", x)\n    if x is None:\n        raise ValueError\n    for name' in shown[0]
    assert "# Left out: gradients (chapter 09), hooks for looking inside." in shown[0]


def of(text, **options):
    """Returns what is shown of a source."""
    return source._Source(
        textwrap.dedent(text), **{"backward": False, "checks": False, **options}
    ).shortened()


ODD = {
    "a variable of that name is not the parameter": (
        "def f(x):\n    saved = []\n    return g(x, saved=saved)",
        "def f(x):\n    saved = []\n    return g(x, saved=saved)",
    ),
    "the only one by name": ("def f(x, *, saved=None):\n    return x", "def f(x):\n    return x"),
    "before **more": (
        "def f(x, *, saved=None, **m):\n    return g(x, **m)",
        "def f(x, **m):\n    return g(x, **m)",
    ),
    "a search": (
        "def f(x):\n    try:\n        if x:\n            raise KeyError\n    except KeyError:\n        return -x",
    )
    * 2,
    "what does something before it raises": (
        "def f(x):\n    if x:\n        x.close()\n        raise ValueError\n    return x",
    )
    * 2,
    "nothing else": ("def f(x):\n    checks.g(x)", "def f(x):\n    ..."),
    "a comment within a call": ("def f(x):\n    return g(\n        x  # why\n    )",) * 2,
    "lines within a string": ('def f():\n    return """(\n  a\n)\n\n\n\nb"""',) * 2,
    "a raw docstring": ('def f():\n    r"""One \\d.\n\n    Two.\n    """',) * 2,
    "a docstring that ends in a quotation": ('def f():\n    """Say "a"\n\n    b.\n    """',) * 2,
    "a summary in two lines": (
        'def f(x):\n    """Twice x,\n    in two lines.\n\n    Raises:\n        Nothing.\n    """\n    return x',
        'def f(x):\n    """Twice x,\n    in two lines."""\n    return x',
    ),
    "a string that is no docstring": (
        'class C:\n    """C."""\n\n    def f(x):\n        # one\n        """X."""\n        """Y."""\n        return x',
    )
    * 2,
    "no program": ("lambda x: x, ",) * 2,
}


@pytest.mark.parametrize("case", ODD)
def test_odd_sources_are_shown_right_or_whole(case):
    text, shown = ODD[case]
    assert of(text) == shown.rstrip()


def test_what_is_checked_of_the_list_goes_with_the_list():
    text = "def f(x, saved=None):\n    checks.none(saved)\n    checks.g(x)\n    return x"
    assert of(text, checks=True) == "def f(x):\n    checks.g(x)\n    return x"
    assert of(text, checks=True, backward=True) == text
