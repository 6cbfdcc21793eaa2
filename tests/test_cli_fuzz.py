"""Tests the command line with arbitrary input: it does what was asked, or refuses in one line.

Valid recipes, logs, checkpoints and flags are changed in one or two places and passed to the commands.
"""

import io
import json
import os
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path

import pytest
import typer
from bounded import bounded
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from glassformer.checkpoints import DESCRIPTION, MODEL, TOKENIZER, checksum_of, latest, own_checksum_of
from glassformer.cli import app
from glassformer.progress import bar
from glassformer.published import published
from glassformer.text import BytePairTokenizer

SECONDS = 10  # for one command: a hundred times what it takes on a quiet machine
BYTES = 4 * 2**30  # of addresses, beyond what this process has

# What Python says of a mistake in the program; no message of ours has it.
PYTHONS_OWN = re.compile(
    "not supported between|object is not|has no attribute|unhashable|invalid literal|out of range|unpack|argument:"
    "|unexpected keyword|positional argument|not subscriptable|could not convert|recursion|NoneType"
)

RECIPE = """[data]
text = "TEXT"
length = 4
validation = 0.1
[model]
d_model = 4
n_layers = 1
n_heads = 1
[training]
steps = 1
batch_size = 2
device = "cpu"
"""

NUMBERS = st.sampled_from(
    [-1, 0, 1, 2, 3, 0.5, -0.5, 1e-308, 1e38, 1e308, 10**9, 10**12, 2**63, 2**64, 10**30, 10**400]
)
WORDS = st.sampled_from(
    ["", "x", "\n", "\x1b[31m", "é𝔊", "../..", "nan", "decoder", "adamw", "rope", "a" * 300]
)
VALUES = st.one_of(NUMBERS, WORDS, st.sampled_from([None, True, [], {}, [0.9, 0.9], {"a": [None]}]))


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """Prevents access to the hub and switches off progress bars, so stderr has only a command's complaints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr("glassformer.train.trainer.progress_bar", partial(bar, disable=True))
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Makes a valid run: a text, a recipe, and what one step of training wrote."""
    place = tmp_path_factory.mktemp("fuzz")
    (place / "text.txt").write_text("so it goes, and so it went on.\n" * 40, encoding="utf-8")
    (place / "recipe.toml").write_text(
        RECIPE.replace("TEXT", (place / "text.txt").as_posix()), encoding="utf-8"
    )
    (place / "model.json").write_text(published("teaching-736").config.to_json(), encoding="utf-8")
    assert call("train", place / "run", "--recipe", place / "recipe.toml") == (0, "")
    return place


def call(*arguments):
    """Returns the status of a command, and what it wrote to stderr. Any other exception is an error in the program."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        app([str(argument) for argument in arguments])
    return ended.value.code, err.getvalue()


def check(*arguments):
    """Checks that the command succeeds, with nothing but warnings, or explains in one line why not."""
    with bounded(SECONDS, BYTES):
        status, said = call(*arguments)
    if status == 0:
        assert all(line.startswith("warning: ") for line in said.splitlines()), said
        return
    assert status == 2, said
    assert said.startswith("Error: ")
    assert said.endswith("\n")
    assert said[:-1].isprintable(), said  # so there is one line only
    assert len(said) > len("Error: \n") + 10, said
    assert not PYTHONS_OWN.search(said), said


def fuzz(n):
    return settings(
        max_examples=n,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],  # what fails is small as it is
        suppress_health_check=list(HealthCheck),
    )


# Flags

FLAGS = {
    name: {
        option.opts[0]: option.is_flag
        for option in command.params
        if option.param_type_name == "option" and option.opts[0] != "--compile"  # which takes too long here
    }
    for name, command in typer.main.get_command(app).commands.items()
}
"""Every flag of each command, and whether it stands alone, without a value."""

FIELDS = {
    "data": "text length validation pairs tokenizer vocab_size",
    "model": "family d_model n_layers n_heads d_ff norm_eps dropout positions",
    "training": "optimizer betas eps clip ema warmup accumulation init device",
}
RECIPE_FIELDS = [f"{part}.{name}" for part, names in FIELDS.items() for name in names.split()]


def in_toml(value):
    return "nan" if value is None else json.dumps(value).replace('{"a": [null]}', "1979-05-27")


@st.composite
def lines(draw):
    """Yields a command with one or two flags, whose values may be anything."""
    command = draw(st.sampled_from([*FLAGS, "generate", "train", "train"]))
    flags = draw(st.lists(st.sampled_from([*FLAGS[command]] or ["--nothing"]), max_size=2, unique=True))
    typed = [command, {"trace": "MODEL", "params": "MODEL"}.get(command, "RUN")]
    for flag in flags:
        if FLAGS[command].get(flag):
            typed.append(flag)
            continue
        value = draw(st.one_of(NUMBERS, WORDS))
        if flag == "--set":
            value = f"{draw(st.sampled_from(RECIPE_FIELDS))}={draw(VALUES.map(in_toml))}"
        if flag == "--steps" and isinstance(value, int) and value > 3:
            value = 3  # that many steps would be made, as asked
        if flag == "--n-new" and value in (10**9, 10**12):
            typed.append("--slide")
            value = 10**15
        typed += [flag, str(value)]
    return typed


@fuzz(100)
@example(["generate", "RUN", "--seed", "-1"])
@example(["generate", "RUN", "--prompt", ""])
@example(["generate", "RUN", "--repetition-penalty", "1e-308"])
@example(["generate", "RUN", "--beams", "0"])
@example(["generate", "RUN", "--n-new", "1000000000000", "--slide"])
@example(["generate", "dates"])
@example(["train", "RUN"])
@example(["train", "NEW", "--resume"])
@example(["train", "NEW", "--text", "/dev/zero"])
@example(["train", "NEW", "--batch-size", "1000000000"])
@example(["train", "NEW", "--set", "model.n_layers=1000000000"])
@example(["train", "NEW", "--set", "training.betas=" + "[" * 5000])
@example(["train", "NEW", "--set", f"model.d_model={10**400}"])
@example(["train", "NEW", "--set", "training.device=[]"])
@example(["train", "NEW", "--seed", str(2**64)])
@example(["train", "NEW", "--steps", str(10**400)])
@example(["trace", "MODEL", "--layers", str(10**400)])
@example(["generate", "x" * 5000])
@example(["generate", "a\0b"])
@given(lines())
def test_flags(place, typed):
    new = place / "new"
    shutil.rmtree(new, ignore_errors=True)
    paths = {"RUN": new if typed[0] == "train" else place / "run", "NEW": new, "MODEL": place / "model.json"}
    recipe = [] if typed[0] != "train" or "--recipe" in typed else ["--recipe", place / "recipe.toml"]
    check(*(paths.get(word, word) for word in typed), *recipe)


USED_BY_BEAMS = {"--prompt", "--n-new", "--beams", "--room", "--dtype", "--ignore"}


@pytest.mark.parametrize("flag", sorted(FLAGS["generate"].keys() - USED_BY_BEAMS))
def test_beam_search_refuses_every_flag_that_it_does_not_use(place, flag):
    value = [] if FLAGS["generate"][flag] else ["1"]
    status, said = call("generate", place / "run", "--beams", 2, flag, *value)
    assert (status, said.endswith(f"leave out {flag}\n")) == (2, True), (
        f"{said or 'it was taken'}: in cli.generate, add {flag} to `strategy` or `drawing`"
    )


# Files


@st.composite
def bytes_changed(draw):
    """Yields changed bytes of a file: cut off, one replaced, a piece repeated many times, or all replaced."""
    kind = draw(st.sampled_from(["cut", "flip", "put"]))
    where = draw(st.floats(0, 1))
    what = draw(
        st.sampled_from([b"\0", b"\xff", b"\xef\xbb\xbf", b"[", b"[" * 5000, b'"', b"\n", b"=", b"9" * 500])
    )
    return kind, where, what


def changed(content, change):
    kind, where, what = change
    at = int(where * len(content))
    if kind == "cut":
        return content[:at]
    return content[:at] + what + content[at + (kind == "flip") :]


@pytest.fixture
def own(place, tmp_path):
    return shutil.copytree(place / "run", tmp_path / "run")


@fuzz(60)
@example("recipe.toml", ("put", 0.0, b"\xef\xbb\xbf"))
@example("recipe.toml", ("cut", 0.0, b""))
@example("recipe.toml", ("put", 1.0, b"[" * 100_000))
@example("recipe.toml", ("put", 1.0, b"[a.a" + b".a" * 100_000 + b"]"))
@example("log.jsonl", ("put", 0.0, b"[1]\n"))
@example("log.jsonl", ("put", 0.0, b'{"loss": 1}\n'))
@example("log.jsonl", ("put", 0.0, b'{"step": "1"}\n'))
@given(st.sampled_from(["recipe.toml", "log.jsonl"]), bytes_changed())
def test_a_damaged_file(place, own, name, change):
    content = changed((place / "run" / name).read_bytes(), change)
    if name == "recipe.toml":
        shutil.rmtree(place / "new", ignore_errors=True)
        (place / "mine.toml").write_bytes(content)
        check("train", place / "new", "--recipe", place / "mine.toml")
    else:
        (own / name).write_bytes(content)
        check("train", own, "--resume")


BYTE_PAIRS = json.loads(BytePairTokenizer.from_text("ab", 256).to_json())
NEVER_ENDS = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
DESCRIBED = """
format step tokens task model training versions files model.n_layers model.vocab_size model.positions training.steps
"""
PARTS = [(DESCRIPTION, field) for field in DESCRIBED.split()]
PARTS += [(TOKENIZER, field) for field in ("characters", "model", "pre_tokenizer", "decoder", "normalizer")]


@fuzz(60)
@example(("training.json", "files"), [MODEL], True)
@example(("training.json", "files"), {MODEL: 3}, True)
@example(("training.json", "model.n_layers"), 10**9, True)
@example(("tokenizer.json", "pre_tokenizer"), NEVER_ENDS, True)
@example(("tokenizer.json", "characters"), "", True)
@example(("tokenizer.json", "characters"), "é" * 2, True)
@example(("tokenizer.json", "characters"), "".join(map(chr, range(300, 900))), True)
@given(st.sampled_from(PARTS), VALUES, st.booleans())
def test_a_checkpoint(place, own, where, value, signed):
    """Both damaged files, and files that somebody changed together with the checksum."""
    file, field = where
    step, whole = own / latest(own).name, latest(place / "run")
    described = json.loads((whole / DESCRIPTION).read_text())
    if file == TOKENIZER:
        parts = {} if field == "characters" else BYTE_PAIRS
        content = json.dumps(parts | {field: value}).encode()
        (step / TOKENIZER).write_bytes(content)
        described["files"][TOKENIZER] = checksum_of(content)
    else:
        part, _, name = field.partition(".")
        described[part] = described[part] | {name: value} if name else value
    if signed:
        del described["checksum"]
        described["checksum"] = own_checksum_of(described)
    (step / DESCRIPTION).write_text(json.dumps(described))
    check("generate", own, "--n-new", 1, "--prompt", "aaa")
    if signed and file == DESCRIPTION:
        check("train", own, "--resume")


def test_what_is_no_file(own):
    """Replaces each file of a run by a pipe that nobody writes to, and by a device that never ends."""
    for path in sorted(path for path in own.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for put in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir):
            path.unlink()
            put(path)
            check("train", own, "--resume")
            check("generate", own, "--n-new", 1)
            path.rmdir() if path.is_dir() else path.unlink()
            path.write_bytes(content)
