"""Tests what the page of chapter 09 builds: functions that keep float32, a small autograd, and a function with bugs."""

import ast
import math

import numpy as np
import pytest
import torch
from scipy.special import erf
from torch.nn import functional

from glassformer import contents, scratch
from glassformer.exercises.attempt import WRONG, attempt
from glassformer.exercises.catalogue import find
from glassformer.published import published
from tools import notebooks
from tools.shared import chapter_facts


def cells_of(path):
    return [cell.source for cell in notebooks.read_text(path).cells if cell.cell_type == "code"]


def defined(path):
    """Returns what the cells of a text define: functions, classes, and the steps of the small autograd."""
    found = {"np": np, "math": math, "erf": erf, "scratch": scratch}
    for source in cells_of(path):
        if not any(word in source for word in ("def ", "class ", "step(")):
            continue
        nodes = [
            node
            for node in ast.parse(source).body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            or (isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("step("))
        ]
        exec(compile(ast.Module(nodes, []), path.name, "exec"), found)
    return found


@pytest.fixture(scope="module")
def page():
    return defined(chapter_facts.text_of(contents.chapter("09")))


def single(*shape):
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def test_every_function_of_the_page_keeps_float32(page):
    heads = [single(2, 5, n) for n in (4, 4, 4)]
    x, gain = single(5, 6), single(6)
    ids = np.array([0, 3, 3, 1, 2])
    found = {
        "cross_entropy": page["cross_entropy"](x, ids),
        "cross_entropy_backward": page["cross_entropy_backward"](x, ids),
        "linear_backward": page["linear_backward"](single(5, 3), x, single(6, 3)),
        "embedding_backward": page["embedding_backward"](x, ids, single(4, 6)),
        "softmax_backward": page["softmax_backward"](x, x),
        "attention": page["attention"](*heads, np.tri(5, dtype=bool)),
        "attention_backward": page["attention_backward"](heads[0], *heads, np.tri(5, dtype=bool)),
        "layer_norm": page["layer_norm"](x, gain, gain),
        "layer_norm_backward": page["layer_norm_backward"](x, x, gain, gain),
        "gelu": page["gelu"](x),
        "gelu_slope": page["gelu_slope"](x),
    }
    assert {name: types(result) for name, result in found.items() if types(result) != {"float32"}} == {}


def types(result):
    return {str(one.dtype) for one in (result if isinstance(result, tuple) else (result,))}


def test_the_gradients_of_a_whole_gpt_keep_float32(page):
    config = small_gpt()
    weights = scratch.Transformer(config, generator=np.random.default_rng(0)).named_parameters()
    ids = np.array([3, 1, 4, 1, 5])
    loss, grads = page["gpt_gradients"](ids[:-1], ids[1:], weights, 2)
    assert types(loss) == {"float32"}
    assert grads.keys() == weights.keys()
    assert set().union(*map(types, grads.values())) == {"float32"}


def small_gpt():
    return published("gpt2").config.replace(
        vocab_size=9, context_length=7, d_model=8, n_layers=2, n_heads=2, attention_bias="none",
        feedforward="gelu",
    )  # fmt: skip


def test_the_small_autograd_has_at_most_forty_lines():
    cells = cells_of(chapter_facts.text_of(contents.chapter("09")))
    (whole,) = (source for source in cells if "class Value" in source)
    (operators,) = (source for source in cells if "Value.__add__" in source)
    lines = (whole + operators.partition("loss_of")[0]).splitlines()
    assert 30 < sum(bool(line.strip()) for line in lines) <= 40


def test_values_pass_on_their_gradient_after_all_their_uses(page):
    """A value that is used early and late: in the wrong order, it passes on what has arrived so far."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(3, 3)) for _ in range(3)]
    bias = rng.normal(size=3)

    def forward(x, A, B, b):
        early = x @ A
        late = early + (early @ B + b)
        return (late @ A) + early + x

    values = [page["Value"](array) for array in (*arrays, bias)]
    end = forward(*values)
    for _ in range(2):  # a second call adds nothing to the first
        end.backward()
    tensors = [torch.tensor(array, requires_grad=True) for array in (*arrays, bias)]
    forward(*tensors).sum().backward()
    for value, tensor in zip(values, tensors, strict=True):
        assert np.allclose(value.grad, tensor.grad.numpy(), rtol=1e-12, atol=1e-12)


def test_a_graph_lists_each_value_once_and_inputs_first(page):
    x = page["Value"](np.ones((2, 2)), "x")
    y = x + x @ x
    listed = y.graph()
    assert [one.name for one in listed] == ["x", "@", "+"]
    assert listed[-1] is y


def test_constants_get_no_gradient(page):
    z = page["Value"](np.random.default_rng(0).normal(size=(3, 5)))
    targets = np.array([4, 0, 4])
    page["loss_of"](z, targets).backward()
    tensor = torch.tensor(z.array, requires_grad=True)
    functional.cross_entropy(tensor, torch.tensor(targets)).backward()
    assert np.allclose(z.grad, tensor.grad.numpy(), rtol=0, atol=1e-14)


def test_the_printed_function_of_the_practice_has_its_three_bugs():
    broken = defined(chapter_facts.practice_of(contents.chapter("09")))["broken"]
    exercise = find("back.pool_backward")
    outcome = attempt(exercise, broken, 60.0)
    assert outcome.status == WRONG
    assert outcome.message.endswith(exercise.prose.mistakes["as printed"])
