"""Tests what the capstone's commands show: an adapter to start from, verdicts, a report card, and what was built."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer import nn, pretrained, shipped
from glassformer.chapters.ch15.capstone import commands, template
from glassformer.chapters.ch15.capstone import judge as judging
from glassformer.chapters.ch15.capstone.judge import OPEN, RIGHT, STAGES, WRONG, Verdict, judge
from glassformer.chapters.ch15.capstone.weights import KINDS, made
from glassformer.chapters.ch15.capstone.words import mistakes, pieces, stages
from glassformer.exercises import capstone
from glassformer.exercises.own_file import ENVIRONMENT
from glassformer.text import CharTokenizer, corpus
from glassformer.train import Trainer, initialize, read_log
from glassformer.train.recipe import Recipe

from .designs import library, llama
from .designs.parts import Adapter, design

CHARACTERS = "".join(sorted(set(corpus())))


@pytest.fixture(autouse=True)
def no_hint_given(monkeypatch):
    monkeypatch.setattr(commands, "_hints_given", {})


class Tokens:
    """A tokenizer with only two pieces."""

    vocab_size, context_length = 65, 32

    def encode(self, text):
        return [CHARACTERS.index(one) for one in text]

    def decode(self, ids):
        return "".join(CHARACTERS[i] for i in ids)


def attending(function):
    return type("Mine", (Tokens,), {"attention": function})


def told(shown):
    return repr(shown[-1])


def test_readers_import_it_from_the_exercises_and_with_it_neither_torch_nor_ipython():
    program = """
import sys
import glassformer.exercises
assert not [name for name in sys.modules if name.startswith("glassformer.chapters.ch15")]
from glassformer.exercises import capstone
import glassformer.exercises.capstone, glassformer.chapters.ch15.capstone
assert glassformer.exercises.capstone is capstone is glassformer.chapters.ch15.capstone
from glassformer.exercises.capstone.words import stages  # as chapter 15 had it, in notebooks that readers saved
assert "tokenizer" in stages()
assert not {"torch", "IPython"} & set(sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


# What is said


def test_all_stages_at_once_and_what_was_right_stays_done(shown):
    capstone.check(Tokens)
    assert shown[-1].headline == "Your GPT: 1 of 10 stages"
    assert "✓ 1 · `tokenizer`: a text becomes ids" in told(shown)
    assert "· 5 · `model`: ids go in, logits come out: no `logits` yet." in told(shown)
    capstone.check(type("Empty", (), {}))
    assert "comes back (done before; not looked at now: no `encode` yet.)" in told(shown)
    capstone.check(type("Empty", (), {}), remember=False)
    assert shown[-1].headline == "Your GPT: 0 of 10 stages"


def test_what_lies_inside_a_larger_module_may_stay_open(shown, monkeypatch):
    def judged(adapter, name, *rest):
        return Verdict(name, OPEN if name in ("attention", "block", "shipped") else RIGHT, chapter="03")

    monkeypatch.setattr(commands, "judge", judged)
    capstone.check(Tokens)
    assert (shown[-2].headline, shown[-2].mood) == ("Your GPT: 8 of 10 stages", "good")
    note = "(`attention` and `block` may stay open: such code often lies inside something larger,"
    assert note in repr(shown[-2].lines)
    assert "You can do it alone." in repr(shown[-2])
    assert (
        shown[-1].headline == "What you built, beside GPT-2"
        if hasattr(shown[-1], "headline")
        else shown[-1].rows
    )


def test_what_is_not_to_be_remembered_is_not(shown):
    capstone.check("tokenizer", Tokens, remember=False)
    assert shown[-1].mood == "good"
    capstone.check(type("Empty", (), {}))
    assert shown[-1].headline == "Your GPT: 0 of 10 stages"


def test_one_stage_check_by_check_in_either_order_of_the_arguments(shown):
    def unscaled(self, q, k, v, causal):
        scores = np.exp(q @ k.swapaxes(-1, -2))
        return scores / scores.sum(axis=-1, keepdims=True) @ v

    for arguments in (("attention", attending(unscaled)), (attending(unscaled), "attention")):
        capstone.check(*arguments)
        assert shown[-1].headline == "`attention`: 1 of 5 checks pass"
        assert "The scores were not divided by √K" in told(shown)
        assert "Chapter 03, Attention has the idea." in told(shown)
        assert '<a href="03-attention.ipynb">' in shown[-1]._repr_html_()


@pytest.mark.parametrize("stage", ["atention", 7, "?"])
def test_a_stage_that_is_none(stage, shown):
    if isinstance(stage, str):
        capstone.check(stage, Tokens)
    capstone.hint(stage)
    assert all("There is no stage called" in panel.headline for panel in shown)


@pytest.mark.parametrize("adapter", [None, 3, "Mine"])
def test_what_is_no_adapter(adapter, shown):
    capstone.check("attention", adapter)
    capstone.check(adapter)
    assert shown[0].mood == "bad"
    assert "capstone.check(Mine)" in told(shown) or "no stage" in told(shown)


@pytest.mark.parametrize("seconds", [0, -1, "long", True, None])
def test_a_time_that_is_none(seconds, shown):
    capstone.check("tokenizer", Tokens, seconds=seconds)
    assert "seconds should be a number above 0" in told(shown)


def test_hints_come_one_by_one_and_the_last_one_stays(shown):
    for _ in range(4):
        capstone.hint("cache")
    assert [panel.lines[0][1] for panel in shown] == [*stages()["cache"].hints, stages()["cache"].hints[-1]]


def test_every_stage_has_three_hints_a_chapter_and_pieces_that_exist():
    assert list(STAGES) == list(stages())
    for stage in stages().values():
        assert len(stage.hints) == 3
        assert set(stage.needs) <= pieces().keys()


def test_what_to_write_instead_comes_with_the_second_try(shown, monkeypatch):
    monkeypatch.setattr(commands, "_made_before", set())

    def unscaled(self, q, k, v, causal):
        scores = np.exp(q @ k.swapaxes(-1, -2))
        return scores / scores.sum(axis=-1, keepdims=True) @ v

    said = mistakes()["no-scale"]
    for remember in (False, True):  # what is not the reader's own does not count
        capstone.check("attention", attending(unscaled), remember=remember)
        assert said.says in told(shown)
        assert said.instead not in told(shown)
    capstone.check("attention", attending(unscaled))
    assert f"Try this: {said.instead}" in told(shown)


def test_a_single_stage_tells_too_that_it_may_stay_out(shown):
    capstone.check("attention", Tokens)
    capstone.check("block", Tokens)
    capstone.check("model", Tokens)
    notes = ["may stay open" in repr(panel) for panel in shown]
    assert notes == [True, True, False]


def test_what_is_wrong_may_be_left_out_if_it_is_part_of_something_larger(shown):
    class Half(Tokens):
        def attention(self, q, k, v, causal):
            return 0 * v

    capstone.check("attention", Half)
    assert "(If your code for `attention` is part of something larger, or does more than is asked" in told(
        shown
    )
    assert "may stay open" not in told(shown)


def test_the_rules_and_the_kinds_can_be_read(shown):
    capstone.rules()
    assert "MultiheadAttention" in told(shown)
    assert "scaled_dot_product_attention" in told(shown)
    capstone.kinds()
    kinds, names = shown[-2:]
    assert [row[0] for row in kinds.rows][-2:] == ["activation", "head"]
    heads = dict(zip(kinds.heads, next(row for row in kinds.rows if row[0] == "activation"), strict=True))
    assert heads['"gpt2"'] == "exact GELU"
    rows = {row[0]: row[1:] for row in names.rows}
    for i, (kind, model) in enumerate([(kind, made(kind)) for kind in KINDS]):
        letters = {"V": 23, "D": 24, "K": 8, "context": 24, "F": model.config.d_ff}
        for name, weight in model.named_parameters().items():
            shape, *has = rows[re.sub(r"blocks\.\d\.", "blocks.{i}.", name)]
            sizes = tuple(letters[one] for one in re.findall(r"\w+", shape))
            assert (sizes, has[i]) == (weight.shape, "✓"), (kind, name)


def test_every_right_verdict_shows_its_remarks(shown):
    class Mine(Tokens):
        encode, decode = CharTokenizer(CHARACTERS).encode, CharTokenizer(CHARACTERS).decode

    capstone.check("tokenizer", Mine, remember=False)
    assert "→ `encode` runs the book's tokenizer." in told(shown)
    capstone.check(Mine, remember=False)
    assert "→ `encode` runs the book's tokenizer." in told(shown)


def test_what_was_not_looked_at_is_shown_and_not_ticked(shown, monkeypatch):
    class Mine(llama.Mine):
        encode = None

    title = "texts in a batch do not influence each other"
    monkeypatch.setattr(commands, "STAGES", {name: STAGES[name] for name in ("tokenizer", "model")})
    for arguments in (("model", Mine), (Mine,)):
        capstone.check(*arguments, remember=False)
        assert f"· {title}: not looked at, because your adapter takes one text at a time." in told(shown)
        assert f"✓ {title}" not in told(shown)


# Whatever the reader's code does


def leaves(self, q, k, v, causal):
    sys.exit("bye")


def writes_into_it(self, q, k, v, causal):
    v += 1
    return v


def divides(self, q, k, v, causal):
    return 1 / 0


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (leaves, "SystemExit: bye"),
        (writes_into_it, "argument"),
        (divides, "ZeroDivisionError"),
        (lambda self, q, k, v, causal: "a mixture", "attention"),
        (lambda self, q, k, v, causal: v[0], "should have axes (H, T, K)"),
        (lambda self, q, k, v: v, "TypeError"),
        (lambda self, q, k, v, causal: np.full(v.shape, np.nan), "yours is nan"),
    ],
)
def test_it_survives_and_says_so(function, said):
    found = judge(attending(function), "attention", 0.5)
    assert found.status == WRONG
    assert said in found.message


def test_a_class_that_cannot_be_made_is_told():
    class Mine(Tokens):
        def __init__(self):
            raise ValueError("no weights")

    found = judge(Mine, "tokenizer", 5.0)
    assert (found.status, "ValueError: no weights" in found.message) == (WRONG, True)


@pytest.mark.parametrize("body", ["...", "pass", "return None", "raise NotImplementedError", '"""Later."""'])
def test_what_is_not_begun_is_no_mistake(body):
    made = {}
    exec(f"def attention(self, q, k, v, causal):\n    {body}", made)
    assert judge(attending(made["attention"]), "attention", 5.0).status == OPEN


@pytest.mark.parametrize("number", [{"vocab_size": "many"}, {"vocab_size": 1}, {"vocab_size": True}])
def test_a_size_that_is_none(number):
    found = judge(type("Mine", (Tokens,), number), "tokenizer", 5.0)
    assert (found.status, "`vocab_size` should be a whole number" in found.message) == (WRONG, True)


def test_an_adapter_may_be_an_instance_a_dictionary_or_a_module():
    tokens = Tokens()
    as_dictionary = {"vocab_size": 65, "context_length": 32, "encode": tokens.encode, "decode": tokens.decode}
    for adapter in (tokens, as_dictionary, lambda: tokens):
        assert judge(adapter, "tokenizer", 5.0).status == RIGHT


def test_it_says_which_kind_of_array_would_have_worked():
    def of_tensors(self, ids):
        return torch.nn.functional.one_hot(ids, 65).float()

    found = judge(type("Mine", (Tokens,), {"embed": of_tensors}), "embedding", 5.0)
    assert "It runs if it is given torch tensors: set `tensors = True`." in found.message


def test_logits_that_are_whole_numbers_are_compared_as_any():
    logits = lambda self, ids: np.eye(65, dtype=int)[ids]  # noqa: E731
    mine = type("Mine", (Tokens,), {"logits": logits, "loss": lambda *_: 5.0})
    assert "According to `logits`, the average of −ln p is" in judge(mine, "loss", 5.0).message


def test_training_that_takes_too_long_is_told_that_a_small_model_will_do():
    class Mine(Tokens):
        def learn(self, ids, targets):
            while True:
                pass

    found = judge(Mine, "training", 0.5)
    assert "use a small model" in found.message


def test_an_endless_loop_ends_after_twenty_seconds_of_one_call_and_not_of_a_stage(monkeypatch):
    assert (judging.AT_A_TIME, judging.SECONDS) == (20.0, 120.0)
    monkeypatch.setattr(judging, "AT_A_TIME", 0.4)

    class Mine:
        vocab_size, context_length = 65, 32

        def learn(self, ids, targets):
            while True:
                pass

    found = judge(Mine, "training")
    assert (found.status, found.hung) == (WRONG, "learn")
    assert "`learn` was still running after 0.4 s" in found.message


def test_calls_that_are_short_may_take_longer_together(monkeypatch):
    monkeypatch.setattr(judging, "AT_A_TIME", 3.0)
    began = time.monotonic()

    class Mine(Tokens):
        def encode(self, text):
            time.sleep(0.3)
            return super().encode(text)

    assert judge(Mine, "tokenizer").status == RIGHT
    assert time.monotonic() - began > 3.0


def test_a_piece_that_did_not_return_is_not_called_again(shown, monkeypatch):
    class Mine:
        vocab_size, context_length = 65, 32

        def logits(self, ids):
            while True:
                pass

        def loss(self, ids, targets):
            return self.logits(ids)[0, 0]

        def generate(self, ids, n, temperature, seed):
            return [0] * n

    monkeypatch.setattr(judging, "AT_A_TIME", 0.4)
    capstone.check(Mine)
    assert "`logits` was still running after 0.4 s" in told(shown)
    # no check, only the call, took so long
    assert "V numbers at each position: `logits` was" not in told(shown)
    assert "`logits` did not return in an earlier stage, so it was not called again." in told(shown)


# Beginning


def test_without_a_file_the_adapter_is_empty(shown, tmp_path, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "my_transformer.py"))
    capstone.start()
    assert "There is nothing of yours" in told(shown)
    made = {}
    exec(shown[-1].code, made)
    assert judge(made["Mine"], "model", 5.0).status == OPEN


def test_with_a_file_its_functions_are_used(shown, tmp_path, monkeypatch):
    path = tmp_path / "my_transformer.py"
    monkeypatch.setenv(ENVIRONMENT, str(path))
    path.write_text(
        "def embed(ids, table):\n    return table[ids]\n\n\ndef gpt(ids, weights, n_heads):\n    ...\n"
    )
    capstone.start()
    assert "With your own functions from my_transformer.py: `embed`, `logits`, `weights`, `export`." in told(
        shown
    )
    assert "from my_transformer import (\n    embed, gpt,\n)" in shown[-1].code
    assert max(map(len, shown[-1].code.splitlines())) <= template.WIDTH
    compile(shown[-1].code, "cell", "exec")


def test_a_file_that_cannot_be_imported_loses_nothing(shown, tmp_path, monkeypatch):
    path = tmp_path / "my_transformer.py"
    monkeypatch.setenv(ENVIRONMENT, str(path))
    path.write_text("def embed(:\n")
    capstone.start()
    assert "cannot be imported" in told(shown)
    assert path.read_text() == "def embed(:\n"


# Looking back


@pytest.mark.parametrize("adapter", [llama.Mine, library.Mine, Adapter])
def test_the_practices_loop_trains_whatever_the_adapter_takes(adapter, tmp_path, monkeypatch, capsys):
    page = Path(__file__).parents[3] / "book/chapters/exercises/15-practice.md"
    [cell] = re.findall(
        r"```{code-cell} ipython3\n(# text = open.*?)```", page.read_text(encoding="utf-8"), re.S
    )
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text(corpus()[:2000], encoding="utf-8")
    code = re.sub(r"^# ?", "", cell, flags=re.M).replace("2000", "2").replace("300,", "3,")
    exec(code, {"np": np, "Mine": adapter})
    said = capsys.readouterr().out
    assert said.startswith("0 ")
    assert len(said.splitlines()) > 1


SMALL = ["model.n_layers=1", "model.d_model=16", "model.d_ff=16", "model.n_heads=2"]


def tiny_run(folder, *changes, recipe="modern", base=None):
    """Makes a tiny run on a text of its own, perhaps from the model of another run."""
    folder.mkdir(exist_ok=True)
    text = corpus()[:3000]
    (folder / "mine.txt").write_text(text, encoding="utf-8")
    file = f"data.text={(folder / 'mine.txt').as_posix()}"
    settings = [file, "training.device=cpu", "data.length=16", "training.steps=4", *changes]
    recipe = Recipe.of_the_book(recipe, settings)
    tokenizer, task, config = recipe.made_for(text, base)
    model = base.model if base else nn.Transformer(config, generator=torch.Generator().manual_seed(0))
    initialize(model, recipe.training)
    Trainer(model, task, recipe.training, folder / "run", tokenizer=tokenizer, progress=False).run()
    (folder / "run" / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    return folder / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_run(tmp_path_factory.mktemp("own"), *SMALL)


def test_a_card_beside_the_books(run, shown):
    capstone.card(run)
    table, mine, theirs = shown[-3:]
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["characters read"] == ("2,700", "1,003,854")
    assert rows["steps × texts"][0] == "4 × 12"
    for i in (0, 1):
        saved = float(rows["guessing: bigram"][i]) - float(rows["test loss"][i])
        assert float(rows["better than bigram by"][i]) == pytest.approx(saved, abs=0.002)
    assert [row[0] for row in table.rows[-4:-1]] == [
        f"guessing: {one}" for one in ("blindly", "unigram", "bigram")
    ]
    losses = shipped.card()["losses"]["128 characters"]
    assert [float(rows[f"{part} loss"][1]) for part in losses] == pytest.approx([*losses.values()], abs=5e-4)
    log = read_log(run / "log.jsonl")[-1]
    assert [rows[f"{part} loss"][0] for part in losses] == [f"{log[f'{part}_loss']:.3f}" for part in losses]
    # Chapter 09's 2.482 is of the same counts, on twice as much text
    assert float(rows["guessing: bigram"][1]) == pytest.approx(2.482, abs=0.03)
    assert len(mine.code) > 300
    assert "ROMEO" in theirs.code


def test_a_run_from_before_there_was_a_test_part_has_a_card(run, shown, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    file = copy / "recipe.toml"
    kept = file.read_text(encoding="utf-8")
    file.write_text(kept.replace("test = 0.05\n", "").replace("= 0.05", "= 0.1"), encoding="utf-8")
    capstone.card(copy)
    table = shown[-3]
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["characters read"][0] == "2,700"
    assert rows["test loss"][0] == "none kept"
    saved = float(rows["guessing: bigram"][0]) - float(rows["validation loss"][0])
    assert float(rows["better than bigram by"][0]) == pytest.approx(saved, abs=0.002)
    assert "Your run kept none" in table.closing


def test_a_run_that_began_with_another_model_has_a_card_that_says_so(run, shown, tmp_path):
    gone = (tmp_path / "gone").as_posix()
    further = tiny_run(tmp_path, f"model.from={gone}", recipe="further", base=pretrained.load(run, room="nn"))
    capstone.card(further)
    table = shown[-3]
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["characters read"][0] == "2,700"
    log = read_log(further / "log.jsonl")[-1]
    assert rows["test loss"][0] == f"{log['test_loss']:.3f}"
    assert f"Your run began with the weights of {gone}." in table.closing
    assert "the card cannot tell" in table.closing
    capstone.card(run)
    assert "began with" not in shown[-3].closing


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["data.validation=0", "data.test=0"], "compares losses on text set aside"),
        (
            ["data.tokenizer=bytepairs", "data.vocab_size=270"],
            "reads byte pairs: this card counts characters",
        ),
        (["model.family=encoder"], "is a run of another family"),
    ],
)
def test_what_a_card_cannot_judge_is_told(changes, words, shown, tmp_path):
    capstone.card(tiny_run(tmp_path, *SMALL, *changes))
    assert shown[-1].mood == "bad"
    assert words in shown[-1].lines[0][1]


@pytest.mark.parametrize("folder", ["nowhere", "", "capstone.toml"])
def test_where_there_is_no_run_there_is_no_card(folder, shown, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "capstone.toml").write_text("")
    capstone.card(folder)
    assert shown[-1].mood == "bad"
    assert "There is no card of" in shown[-1].headline


@pytest.mark.parametrize(("folder", "typed"), [("my run", "'my run'"), ("-run", "./-run")])
def test_the_command_that_makes_a_run_can_be_typed_as_it_is_told(folder, typed, shown):
    capstone.card(folder)
    assert f"`python -m glassformer train {typed}` makes a run" in shown[-1].lines[0][1]


def test_a_run_whose_text_has_gone_is_told(run, shown, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    file = copy / "recipe.toml"
    file.write_text(file.read_text(encoding="utf-8").replace("mine.txt", "gone.txt"), encoding="utf-8")
    capstone.card(copy)
    assert "gone.txt is missing" in told(shown)


def test_what_was_built_is_counted_in_the_readers_own_lines(shown):
    capstone.check("tokenizer", Tokens)
    capstone.built(Tokens)
    table = shown[-1]
    rows = {row[0]: row for row in table.rows}
    assert rows["a text becomes ids, and comes back"][1:] == (
        "02 Tokens become vectors", "✓", "2", "65 ids", "50,257 pieces"
    )  # fmt: skip
    assert rows["it learns"][2:4] == ("", "")
    assert rows["it runs weights that others trained"][3] == ""
    assert "2 lines of yours ran. GPT-2 has 124,439,808 parameters." in table.closing


@pytest.mark.parametrize(
    ("adapter", "attention", "block"),
    [
        (llama.Mine, "2 heads of 16", "2 blocks, each with 10,304 numbers"),
        (Adapter, "4 heads of 6", "2 blocks, each with 4,776 numbers"),
    ],
    ids=["llama", "parts"],
)
def test_attention_and_the_blocks_have_the_readers_own_sizes(adapter, attention, block, shown):
    capstone.built(adapter)
    sizes = {row[0]: row[4] for row in shown[-1].rows}
    assert sizes[stages()["attention"].title] == attention
    assert sizes[stages()["block"].title] == block


def test_heads_that_are_modules_of_their_own_are_counted(shown):
    class Head(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (torch.nn.Linear(24, 6, bias=False) for _ in range(3))

        def forward(self, x):
            q, k, v = self.q(x), self.k(x), self.v(x)
            scores = q @ k.mT / 6**0.5
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
            return scores.softmax(-1) @ v

    class Heads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = torch.nn.ModuleList(Head() for _ in range(4))

        def forward(self, x, past=None):
            return torch.cat([head(x) for head in self.heads], dim=-1)

    class Mine(design("Apart")):
        def __init__(self):
            super().__init__()
            for block in self.model.blocks:
                block.attention = Heads()

    capstone.built(Mine)
    assert {row[0]: row[4] for row in shown[-1].rows}[stages()["attention"].title] == "4 heads of 6"


def test_what_was_built_is_seen_beside_a_library_among_the_local_variables(shown):
    class Mine(llama.Mine):
        def logits(self, ids):
            import numpy  # its `shape` is a function

            return numpy.asarray(super().logits(ids))

    capstone.built(Mine)
    assert {row[0]: row[4] for row in shown[-1].rows}[stages()["attention"].title] == "2 heads of 16"


def test_what_was_built_of_something_that_breaks(shown):
    class Mine(Tokens):
        def __init__(self):
            raise ValueError("no weights")

    capstone.built(Mine)
    assert "no weights" in told(shown)


def test_the_line_told_is_the_readers_own_beneath_a_decorator():
    @torch.no_grad()
    def embed(self, ids):
        return 1 / 0

    found = judge(type("Mine", (Tokens,), {"embed": embed}), "embedding", 5.0)
    assert "`return 1 / 0`" in found.message
