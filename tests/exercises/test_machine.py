"""Tests the reader's own file end to end: the functions that readers keep, put together, make models that run."""

import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from close import DOUBLE, SINGLE, assert_close
from transformers import GPT2Config, GPT2LMHeadModel

from glassformer import scratch, shipped
from glassformer.exercises import check, commands, keep, own_file
from glassformer.exercises.catalogue import find
from glassformer.exercises.own_file import ENVIRONMENT
from glassformer.exercises.record import ENVIRONMENT as PROGRESS
from glassformer.exercises.record import Record
from glassformer.generate import generate as written
from glassformer.published import published
from glassformer.tasks import NextToken
from glassformer.text import corpus
from glassformer.train import TrainingConfig, train_in_numpy

from .test_keep import shell  # noqa: F401 - a notebook's kernel

LINE = "A horse! a horse! my kingdom for a horse!"

# What a reader writes, in the order of the book. Each is written as `reveal` shows it, checked, and kept.
ASKED = """
tokens.encode tokens.embed
attention.softmax attention.causal_mask attention.attention attention.split_heads attention.merge_heads
attention.multi_head positions.rotary stream.layer_norm stream.rms_norm
feedforward.gelu feedforward.feed_forward feedforward.silu feedforward.swiglu feedforward.gelu_tanh
block.block gpt.check_ids gpt.gpt gpt.shakespeare
back.cross_entropy back.cross_entropy_backward back.linear_backward back.layer_norm_backward back.gelu_slope
back.feed_forward_backward back.softmax_backward back.attention_backward back.multi_head_backward
back.block_backward back.gpt_gradients
training.batches training.clip training.rate_at training.adamw training.train training.gpt_torch
generating.temper generating.top_k generating.top_p generating.draw generating.generate generating.beam
generating.step generating.generate_cached
families.padding_mask families.encoder families.cover families.loss families.look_across families.shifted
families.translate real.read_tensor real.gpt2
"""
IMPORTS = "import json\nimport math\n\nimport numpy as np"


def all_written():
    """Returns all of it in one text."""
    return "\n\n\n".join([IMPORTS, *(find(name).answer for name in ASKED.split())])


@pytest.fixture(scope="module")
def own(shell, tmp_path_factory):  # noqa: F811
    """Returns the file after a reader has written, checked and kept all functions."""
    path = tmp_path_factory.mktemp("reader") / "my_transformer.py"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENVIRONMENT, str(path))
        patch.setattr(commands, "display", lambda panel: None)
        patch.setenv(PROGRESS, str(path.with_name("progress.json")))
        patch.setattr(commands, "_record", Record())
        patch.setattr(commands, "_accepted", {})
        shell.user_ns["__name__"] = "__main__"
        shell.init_user_ns()
        shell.run_cell(IMPORTS, store_history=True).raise_error()
        for exercise in map(find, ASKED.split()):
            shell.run_cell(exercise.answer, store_history=True).raise_error()
            written = shell.user_ns[exercise.reference.__name__]
            assert check(exercise.name, written) is written, exercise.name
            keep(written)
        assert own_file.trouble() == ""
    return path


def small_gpt(**sizes):
    """Returns a small model of GPT-2's kind, in which no bias is 0 and no gain is 1."""
    config = published("gpt2").config.replace(
        vocab_size=65, attention_bias="none", feedforward="gelu", **sizes
    )
    rng = np.random.default_rng(0)
    model = scratch.Transformer(config, generator=rng, dtype=np.float64)
    for weight in model.named_parameters().values():
        weight += rng.normal(size=weight.shape) * 0.1
    return model


ALONE = """
import sys
assert "glassformer" not in sys.modules
"""


def elsewhere(own, folder, program):
    """Returns what a program prints in another Python that can import the reader's file but not this package."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program) + ALONE],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(own.parent), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.strip()


def test_it_stands_alone_and_has_all_parts(own):
    text = own.read_text(encoding="utf-8")
    kept = re.findall(r"^def (\w+)", text, re.MULTILINE)
    answers = "\n".join(find(name).answer for name in ASKED.split())  # some come with a helper
    assert kept == list(dict.fromkeys(re.findall(r"^def (\w+)", answers, re.MULTILINE)))
    assert sorted(re.findall(r"^(?:import|from) .*", text, re.MULTILINE)) == IMPORTS.replace(
        "\n\n", "\n"
    ).split("\n")


def test_it_trains_itself_as_the_package_does_and_goes_on_in_pytorch(own, tmp_path):
    """Without the package: trains 20 steps on Shakespeare; PyTorch confirms the gradients and takes one more step."""
    model = small_gpt(context_length=16, d_model=12, n_layers=1, n_heads=3)
    task = NextToken(shipped.load()[1].encode(corpus()[:20_000]), 16, batch_size=4, seed=0)
    learned = [task.batch(step) for step in range(20)]
    np.savez(tmp_path / "weights.npz", **model.named_parameters())
    np.save(tmp_path / "batches.npy", np.array([[inputs["ids"], targets] for inputs, targets in learned]))
    program = """
        import numpy as np
        import torch
        from my_transformer import batches, gpt_gradients, gpt_torch, train

        weights, learned = dict(np.load("weights.npz")), np.load("batches.npy")
        losses = list(train(weights, 3, learned, 20, peak=1e-2, warmup=5))
        np.save("losses.npy", losses)
        text = learned[0, 0].ravel()
        x, y = (one[0] for one in next(batches(text, 1, 12, np.random.default_rng(0))))
        _, grads = gpt_gradients(x, y, weights, 3)
        tensors = {name: torch.tensor(w, requires_grad=True) for name, w in weights.items()}
        optimizer = torch.optim.AdamW(tensors.values(), lr=1e-2)
        loss = [0, 0]
        for i in range(2):
            optimizer.zero_grad()
            loss[i] = torch.nn.functional.cross_entropy(gpt_torch(torch.tensor(x), tensors, 3), torch.tensor(y))
            loss[i].backward()
            if i == 0:
                off = max(abs(tensors[name].grad.numpy() - g).max() for name, g in grads.items())
            optimizer.step()
        print(off < 1e-12, (loss[1] < loss[0]).item())
    """
    assert elsewhere(own, tmp_path, program) == "True True"
    plan = TrainingConfig(
        steps=20,
        batch_size=4,
        learning_rate=1e-2,
        warmup=5,
        decay="cosine",
        final_share=0.1,
        weight_decay=0.1,
    )
    assert_close(np.load(tmp_path / "losses.npy"), list(train_in_numpy(model, task, plan)), 2e-11)


def test_another_python_runs_it_and_gets_the_packages_numbers(own, tmp_path):
    """A kernel without this package loads weights of `scratch` and gets the same logits."""
    random = small_gpt(context_length=48, d_model=24, n_layers=3, n_heads=4)
    model, tokenizer = shipped.load()
    ids = tokenizer.encode(LINE)
    np.savez(tmp_path / "random.npz", **random.named_parameters())
    np.savez(tmp_path / "shipped.npz", **model.named_parameters())
    program = f"""
        import numpy as np
        from my_transformer import check_ids, encode, gpt, shakespeare

        ids = check_ids(encode({LINE!r}, {tokenizer.characters!r}), 65, 48)
        np.save("random.npy", gpt(ids, dict(np.load("random.npz")), 4))
        np.save("shipped.npy", shakespeare(ids, dict(np.load("shipped.npz")), 4, {model.config.attention_scale}))
    """
    assert elsewhere(own, tmp_path, program) == ""
    assert_close(np.load(tmp_path / "random.npy"), random(ids), DOUBLE)
    assert_close(np.load(tmp_path / "shipped.npy"), model(ids), SINGLE)


def test_its_gradients_are_the_packages(own, tmp_path):
    """Without the package: compares the loss and the gradient of every weight of a small GPT."""
    model = small_gpt(context_length=48, d_model=12, n_layers=2, n_heads=3)
    ids = shipped.load()[1].encode(LINE)
    np.savez(tmp_path / "weights.npz", **model.named_parameters())
    np.save(tmp_path / "ids.npy", ids)
    program = """
        import numpy as np
        from my_transformer import gpt_gradients

        ids = np.load("ids.npy")
        loss, grads = gpt_gradients(ids[:-1], ids[1:], dict(np.load("weights.npz")), 3)
        np.savez("found.npz", loss=loss, **grads)
    """
    assert elsewhere(own, tmp_path, program) == ""
    saved = []
    logits = model(ids[:-1], saved=saved)
    model.backward(scratch.cross_entropy_backward(logits, ids[1:]), saved)
    found = dict(np.load(tmp_path / "found.npz"))
    assert_close(found.pop("loss"), scratch.cross_entropy(logits, ids[1:]), DOUBLE)
    right = model.gradients()
    assert found.keys() == right.keys() == model.named_parameters().keys()
    largest = max(np.abs(gradient).max() for gradient in right.values())
    for name, gradient in right.items():
        assert_close(found[name], gradient, 0, beside=DOUBLE * largest, what=name)


def test_another_python_writes_with_it_and_with_a_cache_the_same(own, tmp_path):
    """The reader's code writes the package's text, greedy and sampled, with and without a cache."""
    random = small_gpt(context_length=24, d_model=16, n_layers=2, n_heads=2)
    ids = np.arange(5)
    np.savez(tmp_path / "random.npz", **random.named_parameters())
    program = """
        import numpy as np
        from my_transformer import generate, generate_cached

        weights = dict(np.load("random.npz"))
        for name, options in {"greedy": {"temperature": 0}, "drawn": {"temperature": 1.5, "k": 40, "p": 0.9}}.items():
            for write in (generate, generate_cached):
                rng = np.random.default_rng(0)
                text = write(np.arange(5), weights, 2, 16, generator=rng, **options)
                np.save(f"{name} {write.__name__}.npy", text)
    """
    assert elsewhere(own, tmp_path, program) == ""
    for name, options in {
        "greedy": {"temperature": 0},
        "drawn": {"temperature": 1.5, "top_k": 40, "top_p": 0.9},
    }.items():
        [want] = written(random, ids, 16, generator=np.random.default_rng(0), **options)
        for write in ("generate", "generate_cached"):
            np.testing.assert_array_equal(np.load(tmp_path / f"{name} {write}.npy"), want)


def test_another_python_reads_a_folder_of_transformers_with_it(own, tmp_path):
    """The reader's functions read a GPT-2 folder written by transformers and compute its logits."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=40, n_positions=16, n_embd=24, n_layer=2, n_head=3)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():  # no bias is 0 and no gain 1
            weight += 0.1 * torch.randn_like(weight)
    model.save_pretrained(tmp_path)
    program = """
        import json
        import numpy as np
        from my_transformer import gpt2, read_tensor

        data = open("model.safetensors", "rb").read()
        names = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).keys() - {"__metadata__"}
        weights = {name.removeprefix("transformer."): read_tensor(data, name) for name in names}
        np.save("logits.npy", gpt2(np.arange(12), weights, 3))
    """
    assert elsewhere(own, tmp_path, program) == ""
    with torch.no_grad():
        want = model(torch.arange(12)[None]).logits[0]
    assert_close(np.load(tmp_path / "logits.npy"), want, SINGLE)


def test_another_python_runs_an_encoder_and_a_translator_with_it(own, tmp_path):
    """The encoder's logits equal the package's; the translator masks, attends to the source and stops as it should."""
    config = published("gpt2").config.replace(
        family="encoder", vocab_size=65, attention_bias="none", feedforward="gelu",
        context_length=48, d_model=24, n_layers=2, n_heads=4,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    model = scratch.Transformer(config, generator=rng, dtype=np.float64)
    for weight in model.named_parameters().values():
        weight += rng.normal(size=weight.shape) * 0.1
    ids = shipped.load()[1].encode(LINE)
    np.savez(tmp_path / "weights.npz", **model.named_parameters())
    np.save(tmp_path / "ids.npy", ids)
    program = """
        import numpy as np
        from my_transformer import cover, encoder, loss, look_across, padding_mask, shifted, translate

        ids, weights = np.load("ids.npy"), dict(np.load("weights.npz"))
        logits = encoder(ids, weights, 4)
        np.save("logits.npy", logits)
        chosen = np.arange(len(ids)) % 7 == 0
        read, targets = cover(ids, chosen, np.zeros(len(ids)), ids, 64)
        print(sum(read == 64), round(loss(logits, targets), 9))
        x = np.random.default_rng(0).normal(size=(5, 4))
        real = padding_mask([3], 5)[0, 0, 0]
        maps = np.eye(4)[None].repeat(4, 0)
        others = np.where(real[:, None], x, 9)
        print(np.array_equal(look_across(x, x, *maps, 2, real), look_across(x, others, *maps, 2, real)))
        read, asked = shifted([[3, 1, 2]], 7, 8, 9)
        after = dict(zip(read[0], asked[0]))
        print(np.asarray(translate(lambda ids: np.eye(10)[after[ids[-1]]], 7, 8, 9)).tolist())
    """
    printed = elsewhere(own, tmp_path, program).splitlines()
    want = model(ids)
    assert_close(np.load(tmp_path / "logits.npy"), want, DOUBLE)
    asked = np.arange(0, len(ids), 7)
    assert printed == [
        f"{len(asked)} {round(scratch.cross_entropy(want[asked], ids[asked]), 9)}",
        "True",
        "[3, 1, 2]",
    ]
