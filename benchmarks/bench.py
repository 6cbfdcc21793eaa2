"""Measure speed compared with what a reader would otherwise use: ratios measured side by side in one run.

Machines are noisy, so we do not compare absolute times from one day to the next. Each rival has a process of its own,
because the threads of one library go on waiting for work, on a core, while the next one is measured. The processes take
turns, round after round, and we compare them round by round: a row shows the median, and the smallest and largest.
Before that, we check that both of every pair give the same answer. `make bench` prints the table; `--rounds` and
`--only` choose how long to measure and what.

The one exception is the engine in the page. For it the table also shows characters per second and milliseconds, because
a reader waits for those.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from learning import BEGIN, BOOK, STEP, STEPS, milliseconds_in_pytorch, settings_of
from playwright.sync_api import Page, sync_playwright
from transformers import GPT2Config, GPT2LMHeadModel, Qwen3MoeConfig
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

from glassformer import huggingface, nn, scratch
from glassformer.chapters.ch11 import character_times
from glassformer.config import ModelConfig
from glassformer.experiments import state_costs
from glassformer.experiments.recipes import FIRST, LAST, rung
from glassformer.experiments.state_costs import LENGTHS, MODELS, drawn
from glassformer.experiments.training import trainer_of
from glassformer.generate import generate
from glassformer.published import published
from glassformer.widgets.engine.model import source_of
from glassformer.widgets.kit.modules import needed, read

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for tools
from tools.shared import browser

GPT2_SMALL = published("gpt2").config
SMALL = ModelConfig(vocab_size=65, context_length=256, d_model=128, n_layers=4, n_heads=4)

# Everything is measured on two kinds of CPU. The second does without what this one has beyond AVX2: AVX-512, and
# bfloat16 with it. There is a switch for PyTorch's own kernels, for oneDNN and MKL, which it multiplies with, for
# OpenBLAS, which NumPy multiplies with, and for NumPy's own loops. All are read when the libraries are loaded.
KINDS = {
    "this": {},
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    },
}


class Row(NamedTuple):
    """One line of the table: what was done, by which two programs, and how they compare."""

    work: str
    ours: str
    rival: str
    measured: str
    goal: str
    met: bool


Works = dict[str, Callable[[], object]]
"""What rivals do, by their names."""

# Seconds before a turn: the threads of the work before go on waiting for more, each on a core
REST = 0.15
# How often a work is repeated in its turn; the fastest counts, because others are slowed by other programs
IN_A_ROW = 5


def take_turns(
    part: str,
    rounds: int,
    works: Iterable[str],
    elsewhere: Mapping[str, Callable[[], float]] = MappingProxyType({}),
) -> dict[str, list[float]]:
    """Returns the seconds that each work takes in each round. Each has a process, where it is made again.

    What is `elsewhere`, such as in a browser, takes turns with them, and says itself how long it took.
    """
    command = [sys.executable, __file__, "--part", part, "--work"]
    running = {
        name: subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in works
    }
    found: dict[str, list[float]] = {name: [] for name in [*running, *elsewhere]}
    for _ in range(rounds):
        for name, process in running.items():
            time.sleep(REST)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("your turn\n")
            process.stdin.flush()
            found[name].append(float(process.stdout.readline()))
        for name, measure in elsewhere.items():
            time.sleep(REST)
            found[name].append(measure())
    for process in running.values():
        process.communicate()
    return found


def wait_for_turns(work: Callable[[], object]) -> None:
    """Does a work whenever a line comes in, first to warm up; prints the seconds of the fastest."""
    for _ in sys.stdin:
        work()
        print(min(seconds(work) for _ in range(IN_A_ROW)), flush=True)


def seconds(work: Callable[[], object]) -> float:
    """Returns how long a work takes, or the seconds that it has measured itself."""
    start = time.perf_counter()
    found = work()
    return found if isinstance(found, float) else time.perf_counter() - start


def kernels() -> str:
    """Says which kernels are used, which shows that the switches of this kind of CPU have an effect."""
    loops = np.lib.introspect.opt_func_info(func_name="^exp$", signature="float32")["exp"]["ff"]["current"]
    with open("/proc/self/maps") as file:
        openblas = next(line.split()[-1] for line in file if "numpy.libs" in line and "openblas" in line)
    core = ctypes.CDLL(openblas).scipy_openblas_get_corename64_
    core.restype = ctypes.c_char_p
    single = torch.ones(512, 512)
    half = single.bfloat16()
    t_half, t_single = (
        median(seconds(lambda one=one: one @ one) for _ in range(20)) for one in (half, single)
    )
    return (
        f"PyTorch's kernels: {torch.backends.cpu.get_cpu_capability()}; a product takes {t_half / t_single:.1f} × as "
        f"long in bfloat16 as in float32; OpenBLAS: {core().decode()}; NumPy's loops: {loops}"
    )


def compared(found: dict[str, list[float]], one: str, other: str) -> list[float]:
    """Returns how long one work takes relative to another, in each round."""
    return [a / b for a, b in zip(found[one], found[other], strict=True)]


def three_models(config: ModelConfig) -> tuple[GPT2LMHeadModel, nn.Transformer, scratch.Transformer]:
    """Returns GPT-2 in transformers with its initial weights, and both of ours with the same weights."""
    torch.manual_seed(0)
    reference = GPT2LMHeadModel(GPT2Config(**huggingface.config_to_hf(config))).eval()
    state = huggingface.state_from_hf(
        config, {name: tensor.numpy() for name, tensor in reference.state_dict().items()}
    )
    in_numpy = scratch.Transformer(config, generator=None)
    in_numpy.load_state_dict(state)
    in_torch = nn.Transformer(config, generator=None)
    in_torch.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    return reference, in_torch.eval(), in_numpy.eval()


def generating(config: ModelConfig, n_new: int) -> Works:
    """Greedy generation with a cache, for one text; and reading all weights once for each token."""
    reference, in_torch, in_numpy = three_models(config)
    prompt = np.random.default_rng(0).integers(0, config.vocab_size, 16)
    rows = [weight for weight in in_numpy.named_parameters().values() if weight.ndim == 2]
    rows[0] = rows[0].T  # the token embedding, as the head reads it
    vectors = [np.ones(len(matrix), np.float32) for matrix in rows]

    def theirs() -> np.ndarray:
        ids = torch.from_numpy(prompt)[None]
        settings = {"do_sample": False, "min_new_tokens": n_new, "max_new_tokens": n_new, "pad_token_id": 0}
        with torch.no_grad():
            return reference.generate(ids, attention_mask=torch.ones_like(ids), **settings)[0].numpy()

    def reading() -> None:
        for _ in range(n_new):
            for vector, matrix in zip(vectors, rows, strict=True):
                vector @ matrix

    ours = {
        "scratch (NumPy)": lambda: generate(in_numpy, prompt, n_new, temperature=0)[0],
        "nn (PyTorch)": lambda: generate(in_torch, prompt, n_new, temperature=0)[0],
    }
    return {"transformers": theirs, **ours, "reading": reading}


def generation(part: str, name: str, rounds: int, goals: tuple[float, float]) -> list[Row]:
    """Compares greedy generation. No goal asks for more than three quarters of what reading all weights allows.

    The model of 4 × 128 in PyTorch is limited by calls instead: half of the time for a token is Python's, in 57 calls
    of modules and the look-ups of their parts, around 160 launches of kernels. Without any check and any look-up, it
    would be 1.6 times as fast as transformers.
    """
    works = WORKS[part]()
    for ours in ("scratch (NumPy)", "nn (PyTorch)"):
        np.testing.assert_array_equal(works[ours](), works["transformers"]())
    found = take_turns(part, rounds, works)
    limit = median(compared(found, "transformers", "reading"))
    print(
        f"{name}: NumPy reads all matrices in 1/{limit:.2f} of the time that transformers takes for a token"
    )
    return [
        faster(
            f"generate, {name}",
            ours,
            "transformers",
            compared(found, "transformers", ours),
            round(min(goal, 0.75 * limit), 2),
        )
        for ours, goal in zip(("scratch (NumPy)", "nn (PyTorch)"), goals, strict=True)
    ]


def reading_a_text() -> Works:
    """The logits for one text of 128 tokens, at the size of GPT-2 small."""
    reference, in_torch, in_numpy = three_models(GPT2_SMALL)
    ids = np.random.default_rng(0).integers(0, GPT2_SMALL.vocab_size, (1, 128))
    tensor = torch.from_numpy(ids)
    return {
        "scratch (NumPy)": lambda: in_numpy(ids),
        "nn (PyTorch)": torch.no_grad()(lambda: in_torch(tensor).numpy()),
        "transformers": torch.no_grad()(lambda: reference(tensor).logits.numpy()),
    }


def forward(rounds: int) -> list[Row]:
    """Compares the logits for one text.

    Products take nine tenths of the time, in all three, at the CPU's peak; PyTorch's are those of transformers.
    """
    works = WORKS["forward"]()
    expected = works["transformers"]()
    for work in works.values():
        np.testing.assert_allclose(work(), expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    found = take_turns("forward", rounds, works)
    return [
        slower("forward, GPT-2 small, T=128", ours, rival, compared(found, ours, rival), goal)
        for ours, rival, goal in (
            ("scratch (NumPy)", "nn (PyTorch)", 1.0),
            ("scratch (NumPy)", "transformers", 0.85),
            ("nn (PyTorch)", "transformers", 0.95),
        )
    ]


def learning() -> Works:
    """The loss and all gradients for a batch of 12 × 64 characters, with 4 layers and a width of 128."""
    reference, in_torch, in_numpy = three_models(SMALL)
    for model in (reference, in_torch, in_numpy):
        model.train()
    for config_name in ("resid_pdrop", "embd_pdrop", "attn_pdrop"):
        assert getattr(reference.config, config_name) == 0  # the same work: no dropout anywhere
    windows = np.random.default_rng(0).integers(0, SMALL.vocab_size, (12, 65))
    ids, targets = windows[:, :-1], windows[:, 1:]
    tensor, wanted = torch.from_numpy(ids.copy()), torch.from_numpy(targets.copy())

    def by_hand() -> dict[str, np.ndarray]:
        in_numpy.zero_gradients()
        saved: list[tuple] = []
        logits = in_numpy(ids, saved=saved)
        in_numpy.backward(scratch.cross_entropy_backward(logits, targets), saved)
        return in_numpy.gradients()

    def by_autograd() -> dict[str, np.ndarray]:
        in_torch.zero_grad()
        nn.cross_entropy(in_torch(tensor), wanted).backward()
        return {name: parameter.grad.numpy() for name, parameter in in_torch.named_parameters()}

    def theirs() -> None:
        reference.zero_grad()
        logits = reference(tensor).logits.reshape(-1, SMALL.vocab_size)
        torch.nn.functional.cross_entropy(logits, wanted.reshape(-1)).backward()

    return {"scratch (NumPy)": by_hand, "nn (PyTorch)": by_autograd, "transformers": theirs}


def forward_and_backward(rounds: int) -> list[Row]:
    """Compares the loss with all gradients.

    Of NumPy's 46 ms, 24 are products with weights, at the CPU's peak, and the other loops run on one core: PyTorch's
    run on all.
    """
    works = WORKS["backward"]()
    expected, found = works["nn (PyTorch)"](), works["scratch (NumPy)"]()
    largest = max(np.abs(gradient).max() for gradient in expected.values())
    for name, gradient in found.items():
        np.testing.assert_allclose(gradient, expected[name], rtol=0, atol=1e-4 * largest)
    times = take_turns("backward", rounds, works)
    return [
        slower("forward + backward, 4 × 128, B12 × T64", ours, rival, compared(times, ours, rival), goal)
        for ours, rival, goal in (
            ("scratch (NumPy)", "nn (PyTorch)", 1.35),
            ("scratch (NumPy)", "transformers", 1.2),
            ("nn (PyTorch)", "transformers", 0.95),
        )
    ]


def stepping() -> Works:
    """Ten steps of the recipe of 2019, and ten of the modern one; the median of their times counts."""

    def steps(name: str) -> Callable[[], float]:
        recipe = rung(name, ["training.steps=12", "data.validation=0.001", "data.test=0.0"])
        return lambda: median(record["seconds"] for record in trainer_of(recipe).run()[2:])

    return {name: steps(name) for name in (FIRST, LAST)}


def training(rounds: int) -> list[Row]:
    """Compares a step of the modern recipe with one of the recipe of 2019.

    Both multiply about as many numbers, but Muon's products come on top. They run at the CPU's peak, and alone take a
    third of the other recipe's step: a batch has only 768 tokens. Rotations, norms of queries and keys and RMSNorm,
    which PyTorch composes of small operations, take a quarter.
    """
    found = take_turns("training", rounds, stepping())
    ratios = compared(found, LAST, FIRST)
    return [slower("training step, 12 × 64 characters", "modern recipe", "recipe of 2019", ratios, 1.7)]


def attending(backward: bool) -> Works:
    """Causal attention of one head over 2,048 positions, and its gradients if wanted: in pieces, whole, and torch's."""
    rng = np.random.default_rng(0)
    q, k, v, grad = (rng.normal(size=(1, 2048, 64)).astype(np.float32) for _ in range(4))
    tensors = [torch.from_numpy(x).requires_grad_(backward) for x in (q, k, v)]

    def pieces() -> list[np.ndarray]:
        mixed, lse = scratch.attention_in_pieces(q, k, v, causal=True)
        if not backward:
            return [mixed]
        return [mixed, *scratch.attention_in_pieces_backward(grad, q, k, v, mixed, lse, causal=True)]

    def whole() -> list[np.ndarray]:
        mixed, weights = scratch.scaled_dot_product_attention(q, k, v, causal=True)
        if not backward:
            return [mixed]
        return [mixed, *scratch.scaled_dot_product_attention_backward(grad, q, k, v, weights)[:3]]

    def in_torch(attend: Callable[..., torch.Tensor]) -> Callable[[], list[np.ndarray]]:
        def work() -> list[np.ndarray]:
            mixed = attend(*tensors)
            if not backward:
                return [mixed.numpy()]
            gradients = torch.autograd.grad(mixed, tensors, torch.from_numpy(grad))
            return [mixed.detach().numpy(), *(each.numpy() for each in gradients)]

        return work

    return {
        "pieces, NumPy": pieces,
        "whole, NumPy": whole,
        "pieces, PyTorch": in_torch(lambda *qkv: nn.attention_in_pieces(*qkv, causal=True)[0]),
        "whole, PyTorch": in_torch(lambda *qkv: nn.scaled_dot_product_attention(*qkv, causal=True)[0]),
        # without the axis of texts, torch does not take its kernel in pieces
        "torch's kernel": in_torch(
            lambda *qkv: torch.nn.functional.scaled_dot_product_attention(
                *(x[None] for x in qkv), is_causal=True
            )[0]
        ),
    }


def in_pieces(rounds: int) -> list[Row]:
    """Compares attention in pieces with the form that holds all weights at once, and with torch's kernel in C++.

    The memory is that of a call beyond its inputs, in a process of its own.
    """
    rows = []
    for part, goals in (("pieces", (1.0, 1.0, 4.0)), ("pieces-backward", (0.9, 0.7, 4.0))):
        works = WORKS[part]()
        expected = works["torch's kernel"]()
        for work in works.values():
            for found, wanted in zip(work(), expected, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
        times = take_turns(part, rounds, works)
        peaks = {name: peak_of(part, name) for name in works}
        title = "attention, 1 head, 2,048 positions" + (", forward + backward" if "back" in part else "")
        pairs = (
            ("pieces, NumPy", "whole, NumPy"),
            ("pieces, PyTorch", "whole, PyTorch"),
            ("pieces, PyTorch", "torch's kernel"),
        )
        for (ours, rival), goal in zip(pairs, goals, strict=True):
            rows.append(slower(title, ours, rival, compared(times, ours, rival), goal))
            if "whole" in rival:
                share = peaks[ours] / peaks[rival]
                measured = f"{peaks[ours]:.0f} MB of {peaks[rival]:.0f}"
                rows.append(Row(f"memory, {title}", ours, rival, measured, "≤ 0.15", share <= 0.15))
        kernel = peaks["torch's kernel"]
        measured = f"{peaks['pieces, PyTorch'] - kernel:.0f} MB more than {kernel:.0f}"
        met = peaks["pieces, PyTorch"] - kernel <= 30
        rows.append(
            Row(f"memory, {title}", "pieces, PyTorch", "torch's kernel", measured, "≤ 30 MB more", met)
        )
    return rows


def routed(n_experts: int, top_k: int, backward: bool) -> Works:
    """A layer of experts for 512 tokens, 256 wide, and its gradients if wanted; and a dense one with as much work."""
    D, F, N = 256, 128, 512
    sizes = {"n_experts": n_experts, "top_k": top_k, "activation": "swiglu", "bias": False}
    by_hand = scratch.Experts(D, F, **sizes, generator=np.random.default_rng(0))
    in_torch = nn.Experts(D, F, **sizes, generator=None)
    plain = {"activation": "swiglu", "bias": False}
    dense_by_hand = scratch.FeedForward(D, top_k * F, **plain, generator=np.random.default_rng(0))
    dense = nn.FeedForward(D, top_k * F, **plain, generator=torch.Generator().manual_seed(0))
    config = Qwen3MoeConfig(
        hidden_size=D,
        moe_intermediate_size=F,
        num_experts=n_experts,
        num_experts_per_tok=top_k,
        norm_topk_prob=True,
    )
    config._experts_implementation = "eager"
    theirs = Qwen3MoeSparseMoeBlock(config)
    weights = {name: torch.from_numpy(value) for name, value in by_hand.named_parameters().items()}
    in_torch.load_state_dict(weights)
    experts = [
        [weights[f"experts.{i}.W_{n}.weight"].T for n in ("gate", "up", "down")] for i in range(n_experts)
    ]
    with torch.no_grad():
        theirs.gate.weight.copy_(weights["router.W.weight"].T)
        theirs.experts.gate_up_proj.copy_(torch.stack([torch.cat(one[:2]) for one in experts]))
        theirs.experts.down_proj.copy_(torch.stack([one[2] for one in experts]))
    x, grad = np.random.default_rng(1).normal(size=(2, 1, N, D)).astype(np.float32)

    def numpy_of(layer: Any) -> Callable[[], np.ndarray]:
        def work() -> np.ndarray:
            if not backward:
                return layer(x)
            saved: list[tuple] = []
            layer(x, saved)
            return layer.backward(grad, saved)

        return work

    def torch_of(layer: Any) -> Callable[[], np.ndarray]:
        def work() -> np.ndarray:
            given = torch.from_numpy(x).requires_grad_(backward)
            with torch.set_grad_enabled(backward):
                y = layer(given)
            if not backward:
                return y.numpy()
            layer.zero_grad()
            y.backward(torch.from_numpy(grad))
            assert given.grad is not None
            return given.grad.numpy()

        return work

    return {
        "experts, NumPy": numpy_of(by_hand),
        "experts, PyTorch": torch_of(in_torch),
        "transformers' experts": torch_of(theirs),
        "one network, NumPy": numpy_of(dense_by_hand),
        "one network, PyTorch": torch_of(dense),
    }


ROUTED = {"8 experts": (8, 2), "64 experts": (64, 8)}


def routing(rounds: int) -> list[Row]:
    """Measures what routing costs, compared with transformers' experts and with one network that computes as much."""
    rows = []
    for name in ROUTED:
        for backward in ("", ", forward + backward"):
            part = f"{name}{backward}"
            works = WORKS[part]()
            expected = works["transformers' experts"]()
            for ours in ("experts, NumPy", "experts, PyTorch"):
                np.testing.assert_allclose(
                    works[ours](), expected, rtol=0, atol=1e-5 * np.abs(expected).max()
                )
            times = take_turns(part, rounds, works)
            for ours, rival, goal in (
                ("experts, PyTorch", "transformers' experts", 1.2),
                ("experts, NumPy", "transformers' experts", 2.0),
                ("experts, PyTorch", "one network, PyTorch", 4.0),
                ("experts, NumPy", "one network, NumPy", 6.0),
            ):
                rows.append(slower(part, ours, rival, compared(times, ours, rival), goal))
    return rows


def peak_of(part: str, name: str) -> float:
    """Returns the peak memory of a work in megabytes, beyond what its process held before, measured in a new one."""
    command = [sys.executable, __file__, "--part", part, "--peak-of", name]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def peak(work: Callable[[], object]) -> float:
    """Returns by how many megabytes the memory of this process grows at most during a work."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # Linux: the peak counts from here
    before = _resident("VmRSS")
    work()
    return (_resident("VmHWM") - before) / 1e6


def one_character(rounds: int) -> list[Row]:
    """Measures what chapter 11 says of the time for a character: it goes into calls, and neither work nor weights."""
    found = character_times.measure(rounds)
    work, tiny, alone, ratio = (
        "one character, 4 × 128",
        found["tiny"] / found["model"],
        found["products"] / found["model"],
        found["without"] / found["with"],
    )
    return [
        Row(work, "a model 8 wide", "our model", f"{tiny:.2f} of its time", "≥ 0.3", tiny >= 0.3),
        slower(work, "products alone", "our model", [alone], 0.33),
        Row("94 characters", "no cache", "a cache", f"{ratio:.2f} times as long", "1 to 30", 1 < ratio < 30),
    ]


def loading(rounds: int) -> list[Row]:
    """Measures the time to load a trained model in NumPy: a new process, all imports, the book's decoder."""

    def program(text: str) -> float:
        return seconds(lambda: subprocess.run([sys.executable, "-c", text], check=True))

    ours, theirs = "from glassformer import shipped; shipped.load()", "import torch"
    ratios = [program(ours) / program(theirs) for _ in range(rounds + 1)][1:]
    return [slower("start and load a trained model", "scratch (NumPy)", "import torch", ratios, 0.3)]


READ = "KING RICHARD III:\nA horse! a horse! my kingdom for a horse!\n\nKING"[:64]  # what the engine reads


def beside_the_page() -> Works:
    """Reading 64 characters, and a training step of the modern recipe on one thread: the engine does the same."""
    source = source_of("shakespeare")
    model, ids = source.model, source.tokenizer.encode(READ)[None]
    return {
        "NumPy": lambda: model(ids),
        "PyTorch, one thread": lambda: median(milliseconds_in_pytorch()) / 1000,
    }


# The engine with its kernel and in plain JavaScript, and what is measured of both.
ENGINE = """async ([loader, modules, reading, config, weights]) => {
  const { link } = await import(URL.createObjectURL(new Blob([loader], { type: "text/javascript" })));
  const { Transformer, readTensors, windowStart } = await link(modules);
  const { SLICE } = await link(reading);
  const file = Uint8Array.from(atob(weights), (character) => character.charCodeAt(0));
  const tensors = readTensors(new DataView(file.buffer));
  const [V, C] = [config.vocab_size, config.context_length];
  const models = { kernel: new Transformer(config, tensors), plain: new Transformer(config, tensors, { plain: true }) };
  for (const [name, { isFast }] of Object.entries(models)) if (isFast !== (name === "kernel")) throw new Error(name);
  const likeliest = (logits) => {
    const last = logits.subarray(-V);
    return last.indexOf(Math.max(...last));
  };

  // A text that is read like those of the views: only what its window and the last text's do not have in common.
  function reader(model) {
    const cache = model.newCache();
    let read = [];
    return (ids) => {
      const view = ids.slice(windowStart(ids.length, C));
      const differs = view.findIndex((id, t) => id !== read[t]);
      cache.length = Math.min(differs < 0 ? view.length : differs, view.length - 1);
      read = view;
      return model.forward(view.slice(cache.length), { cache });
    };
  }
  window.logits = (name, ids) => Array.from(models[name].forward(ids));
  window.write = (name, prompt, n) => {
    const [ids, read] = [[...prompt], reader(models[name])];
    while (ids.length < prompt.length + n) ids.push(likeliest(read(ids)));
    return ids;
  };
  // As it was before: beyond the context, the last C are read again for each character.
  const slide = (model, prompt, n) => {
    const ids = [...prompt];
    for (let i = 0; i < n; i++) ids.push(likeliest(model.forward(ids.slice(-C))));
  };
  // The longest slice, cut like the views', of a reading by a new model, which lays out its weights meanwhile.
  function longestSlice(ids) {
    const steps = new Transformer(config, tensors).steps(ids);
    for (let [began, longest] = [performance.now(), 0]; ; ) {
      const { done } = steps.next();
      const taken = performance.now() - began;
      longest = Math.max(longest, taken);
      if (done) return longest;
      if (taken >= SLICE) began = performance.now();
    }
  }
  const timed = (work) => {
    const began = performance.now();
    work();
    return performance.now() - began;
  };
  // The median of three, after one to warm up: the others have had their turns.
  const settled = (work) => {
    work();
    return [work, work, work].map(timed).sort((x, y) => x - y)[1];
  };
  // A key press: another character somewhere in view, the median of twenty places.
  function press(name, ids) {
    const read = reader(models[name]);
    read(ids);
    const times = [];
    const start = windowStart(ids.length, C);
    for (let i = 0; i < 20; i++) {
      const other = [...ids];
      other[start + Math.floor(((ids.length - start) * (i + 0.5)) / 20)] = i;
      times.push(timed(() => read(other)));
      read(ids);
    }
    return times.sort((x, y) => x - y)[10];
  }
  window.measured = (short, long) => ({
    read: Object.values(models).map((model) => settled(() => model.forward(short))),
    write: Object.keys(models).map((name) => timed(() => write(name, short.slice(0, 16), 100))),
    beyond: [timed(() => write("kernel", long, 100)), 10 * timed(() => slide(models.plain, long, 10))],
    press: Object.keys(models).map((name) => press(name, long)),
    slice: [longestSlice(short), 1],
    weights: [timed(() => readTensors(new DataView(file.buffer))), 1],
  });
}"""


def engine(rounds: int) -> list[Row]:
    """Measures the engine in headless Chromium: the book's decoder, also in plain JavaScript, and how a GPT learns."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser.find(), args=browser.FLAGS)
        rows = engine_on(chromium.new_page(), rounds)
        chromium.close()
    return rows


def engine_on(page: Page, rounds: int) -> list[Row]:
    """Measures the same on a given page."""
    source = source_of("shakespeare")
    config, weights = json.loads(source.config.to_json()), base64.b64encode(source.weights).decode()
    modules, reading = (
        [{"name": name, "source": read(name)} for name in needed(one)] for one in ("transformer", "reading")
    )
    page.evaluate(ENGINE, [read("loader"), modules, reading, config, weights])
    chain = [{"name": name, "source": read(name)} for name in needed("training")]
    page.evaluate(BEGIN, [[chain], read("loader"), settings_of(BOOK)])
    model, ids = source.model, source.tokenizer.encode(READ)
    long = np.tile(ids, 5)[:300]
    for name in ("kernel", "plain"):
        expected = model(ids[None])[0]
        found = page.evaluate("([name, ids]) => logits(name, ids)", [name, ids.tolist()])
        np.testing.assert_allclose(
            np.reshape(found, (64, -1)), expected, rtol=0, atol=1e-5 * np.abs(expected).max()
        )
        for prompt in (ids[:16], long):
            written = page.evaluate("([name, ids]) => write(name, ids, 100)", [name, prompt.tolist()])
            np.testing.assert_array_equal(
                written, generate(model, prompt, 100, temperature=0, past_context="half")[0]
            )
    found: list[dict[str, list[float]]] = []

    def look() -> float:
        found.append(page.evaluate("([short, long]) => measured(short, long)", [ids.tolist(), long.tolist()]))
        return found[-1]["read"][0] / 1000

    def step() -> float:
        return median(json.loads(page.evaluate(STEP, [{}, STEPS]))["times"][2:]) / 1000

    look()
    found.clear()
    step()
    works = ("NumPy", "PyTorch, one thread")
    times = take_turns("page", rounds, works, {"reading": look, "step": step})
    ms = {name: [median(one[name][i] for one in found) for i in (0, 1)] for name in found[0]}

    def row(work: str, name: str, rival: str, said: str, least: float, goal: str, met: bool) -> Row:
        ratio = ms[name][1] / ms[name][0]
        measured = f"{ratio:.1f} × as fast, {said}"
        return Row(
            f"engine: {work}",
            "kernel (Chromium)",
            rival,
            measured,
            f"≥ {least} ×{goal}",
            ratio >= least and met,
        )

    written, beyond = (1e5 / ms[name][0] for name in ("write", "beyond"))
    plain, press = "plain JavaScript", ms["press"][0]
    chromium, (numpy, pytorch) = "kernel (Chromium)", works
    training = "engine: a training step, 808,704 parameters, 12 × 64 characters"
    return [
        row("read 64 characters at once", "read", plain, f"{ms['read'][0]:.1f} ms", 10, "", True),
        slower("engine: read 64 characters at once", chromium, numpy, compared(times, "reading", numpy), 1.6),
        faster(training, chromium, pytorch, compared(times, pytorch, "step"), 0.75),
        row("write 100 characters", "write", plain, f"{written:.0f} a second", 2, "", True),
        row(
            "write beyond the window",
            "beyond",
            "plain, sliding",
            f"{beyond:.0f} a second",
            100,
            ", ≥ 100 a second",
            beyond >= 100,
        ),
        row("key press in 300 characters", "press", plain, f"{press:.1f} ms", 4, ", ≤ 30 ms", press <= 30),
        Row(
            "engine: longest slice of a reading",
            "kernel (Chromium)",
            "half a frame",
            f"{ms['slice'][0]:.1f} ms",
            "≤ 8 ms",
            ms["slice"][0] <= 8,
        ),
        Row(
            "engine: convert the weights",
            "readTensors",
            "a long task",
            f"{ms['weights'][0]:.1f} ms",
            "≤ 50 ms",
            ms["weights"][0] <= 50,
        ),
    ]


def memory() -> list[Row]:
    """Measures the memory that generating takes beyond weights and cache, in a process of its own."""
    rows = []
    for room in ("scratch", "nn"):
        run = subprocess.run(
            [sys.executable, __file__, "--memory-of", room], capture_output=True, text=True, check=True
        )
        beyond = float(run.stdout)
        ours = {"scratch": "scratch (NumPy)", "nn": "nn (PyTorch)"}[room]
        rows.append(
            Row(
                "memory, generate, GPT-2 small, 512 + 64 tokens",
                ours,
                "weights and cache",
                f"{max(beyond, 0):.0f} MB more",
                "≤ 100 MB",
                beyond <= 100,
            )
        )
    return rows


def memory_of(room: str) -> float:
    """Returns the peak memory of a generation in megabytes, beyond the process with its model and the cache."""
    config, n_prompt, n_new = GPT2_SMALL, 512, 64
    model = {"scratch": scratch, "nn": nn}[room].Transformer(config, generator=None).eval()
    generate(model, np.arange(4), 2, temperature=0)  # libraries make their own buffers when first used
    cache = model.new_cache(1, n_prompt + n_new).nbytes
    beyond = peak(lambda: generate(model, np.arange(n_prompt), n_new, temperature=0))
    return beyond - cache / 1e6  # below 0 where memory freed before is used again


LONG = LENGTHS[-1]  # positions of a prompt
AT_A_TIME = 1000  # positions of it in the steps that reading it at once is compared with


def states() -> list[Row]:
    """Measures what a prompt of 100,000 positions takes, and a token after it; each room has a process of its own."""
    rows = []
    for room, ours in (("scratch", "scratch (NumPy)"), ("nn", "nn (PyTorch)")):
        run = subprocess.run(
            [sys.executable, __file__, "--long-text-of", room], capture_output=True, text=True, check=True
        )
        found = json.loads(run.stdout)
        reading = f"read {LONG:,} positions, hybrid 4 × 128"
        took, more, apart, scores = (found[name] for name in ("seconds", "megabytes", "difference", "direct"))
        for work, rival, measured, goal, met in (
            (reading, "five minutes", f"{took:.0f} s", "≤ 300 s", took <= 300),
            (f"memory, {reading}", "the loaded model", f"{more:.0f} MB more", "≤ 1000 MB", more <= 1000),
            (
                "its last logits, and the next",
                "in steps of 1,000",
                f"{apart:.0e} apart",
                "≤ 1e-5",
                apart <= 1e-5,
            ),
            ("its scores, the direct way", "8 GB", scores, "refused", "refused" in scores),
        ):
            rows.append(Row(work, ours, rival, measured, goal, met))
        tokens = {model: found[model]["milliseconds"] for model in MODELS}
        for model, (short, _, long) in tokens.items():
            words = f"a token at {LONG:,}, {model}: {long:.1f} ms, {found[model]['bytes'][-1] / 1e6:,.1f} MB"
            goal = 1.2 if model == "states" else float("inf")
            rows.append(slower(words, ours, f"at {LENGTHS[0]:,}", [long / short], goal))
    return rows


def long_text_of(room: str) -> dict[str, Any]:
    """Returns what `states` compares of one room."""
    model, of_numpy = drawn(room, "hybrid")
    ids = of_numpy(np.random.default_rng(0).integers(0, model.config.vocab_size, (1, LONG + 1)))
    model(ids[:, :300], cache=model.new_cache(1, 300))  # libraries make their own buffers when first used
    at_once: list[np.ndarray] = []
    began = time.perf_counter()
    megabytes = peak(lambda: at_once.append(last_logits(model, ids, LONG)))
    took = time.perf_counter() - began
    in_steps = last_logits(model, ids, AT_A_TIME)
    found = {
        "seconds": took,
        "megabytes": megabytes,
        "difference": float(np.abs(at_once[0] - in_steps).max() / np.abs(in_steps).max()),
    }
    found |= {name: state_costs.measure(room, name) for name in MODELS}
    return found | {"direct": direct(room, of_numpy)}


@torch.no_grad()
def last_logits(model: Any, ids: Any, step: int) -> np.ndarray:
    """Returns the logits after a prompt that is read in steps of so many positions, and after the last id."""
    cache = model.new_cache(1, LONG + 1)
    for begin in range(0, LONG, step):
        hidden = model.hidden(ids[:, begin : min(begin + step, LONG)], cache=cache)
    both = model.head(hidden[:, -1:]), model(ids[:, LONG:], cache=cache)
    return np.concatenate([np.asarray(one) for one in both])


def direct(room: str, of_numpy: Callable[[np.ndarray], Any]) -> str:
    """Says whether memory for all scores of one layer is refused to a process that may have 8 GB."""
    resource.setrlimit(resource.RLIMIT_DATA, (8 * 10**9, 8 * 10**9))
    x = of_numpy(np.zeros((4, LONG, 32), np.float32))
    attend = {"scratch": scratch, "nn": nn}[room].scaled_dot_product_attention
    size = f"{x.shape[0] * LONG**2 * 4 / 1e9:.0f} GB"
    try:
        attend(x, x, x, causal=True)
    except (MemoryError, RuntimeError) as error:  # of NumPy, and of torch
        return f"{size}, refused" if "llocate" in str(error) else str(error)
    return size


def _resident(name: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))


def faster(work: str, ours: str, rival: str, ratios: list[float], goal: float) -> Row:
    """Returns a line that says how many times as fast ours is."""
    return Row(work, ours, rival, f"{spread(ratios)} × as fast", f"≥ {goal} ×", median(ratios) >= goal)


def slower(work: str, ours: str, rival: str, ratios: list[float], goal: float) -> Row:
    """Returns a line that says what fraction of the rival's time ours takes."""
    return Row(work, ours, rival, f"{spread(ratios)} of its time", f"≤ {goal}", median(ratios) <= goal)


def spread(ratios: list[float]) -> str:
    """Returns the median and, if there are several, the smallest and the largest."""
    between = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
    return f"{median(ratios):.2f}{between}"


def table(rows: list[Row]) -> str:
    """Returns the rows as aligned columns below their headings."""
    cells = [("work", "ours", "against", "measured", "goal", "")]
    cells += [(*row[:5], "met" if row.met else "MISSED") for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells
    )


WORKS: dict[str, Callable[[], Works]] = {
    "gpt2": lambda: generating(GPT2_SMALL, 32),
    "small": lambda: generating(SMALL, 200),
    "forward": reading_a_text,
    "backward": learning,
    "training": stepping,
    "pieces": lambda: attending(backward=False),
    "pieces-backward": lambda: attending(backward=True),
    "page": beside_the_page,
    **{name: lambda sizes=sizes: routed(*sizes, backward=False) for name, sizes in ROUTED.items()},
    **{
        f"{name}, forward + backward": lambda sizes=sizes: routed(*sizes, backward=True)
        for name, sizes in ROUTED.items()
    },
}
PARTS = {
    "gpt2": lambda rounds: generation("gpt2", "GPT-2 small", rounds, (2.2, 1.6)),
    "small": lambda rounds: generation("small", "4 × 128", rounds, (2.8, 1.2)),
    "character": one_character,
    "forward": forward,
    "backward": forward_and_backward,
    "training": training,
    "pieces": in_pieces,
    "routing": routing,
    "loading": loading,
    "engine": engine,
    "memory": lambda rounds: memory(),
    "states": lambda rounds: states(),
}


def main() -> int:
    """Runs the requested parts and prints the table; returns 1 if a goal was missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=7,
        help="rounds in which the rivals take turns (default: 7)",
    )
    parser.add_argument(
        "--only", choices=PARTS, nargs="+", default=list(PARTS), help="the parts to run (default: all)"
    )
    parser.add_argument("--memory-of", choices=("scratch", "nn"), help=argparse.SUPPRESS)
    parser.add_argument("--long-text-of", choices=("scratch", "nn"), help=argparse.SUPPRESS)
    parser.add_argument(
        "--kind",
        choices=KINDS,
        nargs="+",
        default=list(KINDS),
        help="this CPU as it is, or with AVX2 alone (default: both)",
    )
    parser.add_argument("--switched", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--part", choices=WORKS, help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--peak-of", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        wait_for_turns(WORKS[arguments.part]()[arguments.work])
        return 0
    if arguments.peak_of:
        print(peak(WORKS[arguments.part]()[arguments.peak_of]))
        return 0
    if arguments.memory_of:
        print(memory_of(arguments.memory_of))
        return 0
    if arguments.long_text_of:
        print(json.dumps(long_text_of(arguments.long_text_of)))
        return 0
    if not arguments.switched:
        command = [sys.executable, *sys.argv, "--switched"]
        kinds = [KINDS[kind] for kind in arguments.kind]
        return max(subprocess.run(command, env=os.environ | kind).returncode for kind in kinds)
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, torch threads {torch.get_num_threads()}; "
        f"NumPy {np.__version__}, torch {torch.__version__}, transformers {transformers.__version__}; "
        f"medians of {arguments.rounds} rounds"
    )
    print(kernels())
    rows = [row for part in arguments.only for row in PARTS[part](arguments.rounds)]
    print(table(rows))
    return int(not all(row.met for row in rows))


if __name__ == "__main__":
    sys.exit(main())
