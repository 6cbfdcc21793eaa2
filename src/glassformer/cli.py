"""The command line: count a model's parameters, trace its shapes, generate and evaluate text, train, judge a class."""

import contextlib
import difflib
import io
import math
import os
import re
import shlex
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import numpy as np
import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from glassformer import _checks as checks
from glassformer._checks.extras import EXTRAS, missing
from glassformer.anatomy import describe, report
from glassformer.atomic_files import only_writer, write_whole
from glassformer.config import ModelConfig
from glassformer.parameters import LETTERS
from glassformer.progress import on_terminal
from glassformer.published import published
from glassformer.trace import trace as looking_inside
from glassformer.train.own_files import IDS, OwnText, ids_of
from glassformer.train.recipe import FROM, FURTHER, Recipe, doubts, toml_of, toml_value
from glassformer.train.recipe import NAMES as RECIPES
from glassformer.untrusted_files import BYTES, errors_about, no_address, text_in

if TYPE_CHECKING:
    from glassformer.pretrained import Pretrained

REFUSED = (ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError)
"""The errors that unusable input may raise. Any other error is a mistake in the program."""

LONGEST = 2000  # characters of a message


class Commands(TyperGroup):
    """The commands, behind one guard: a command that cannot be carried out prints one line and exits with status 2."""

    def main(self, args: Sequence[str] | None = None, *names: Any, **options: Any) -> Any:
        """Runs the command that the arguments name, and flushes everything that it printed."""
        typed = sys.argv[1:] if args is None else list(args)
        for stream in ("stdout", "stderr"):
            if getattr(sys, stream) is None:  # closed by the shell's >&-, or there is no console on Windows
                setattr(sys, stream, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open to the end
        if isinstance(
            sys.stdout, io.TextIOWrapper
        ):  # a code page of Windows has no ─ and no √: print a ? instead
            sys.stdout.reconfigure(errors="replace")
        try:
            # Without arguments, show the help.
            status = super().main(typed or ["--help"], *names, **options | {"standalone_mode": False})
            sys.stdout.flush()
            sys.exit(status or 0)
        except BrokenPipeError:  # the reader of the output has stopped reading
            _give_up_printing()
            sys.exit(1)
        except TyperException as error:
            _complain(_usage(error, typed))
        except REFUSED as error:
            _complain(_said(error))


def _complain(message: str) -> NoReturn:
    """Prints the message as one line, in characters that every terminal can show, and exits."""
    line = " ".join(message.split())
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    _give_up_printing()
    with contextlib.suppress(OSError):  # if nothing can be printed, the exit status remains
        typer.echo(f"Error: {line if len(line) <= LONGEST else line[:LONGEST] + '…'}", err=True)
    sys.exit(2)


def _show(text: object, *, nl: bool = True) -> None:
    """Prints a text at once. A terminal gets no control characters; a file or a pipe gets the text as it is."""
    typer.echo(on_terminal(str(text)) if sys.stdout.isatty() else text, nl=nl)


def _give_up_printing() -> None:
    """Flushes the output. If that fails, discards it: otherwise Python would try again on exit, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: Any, typed: list[str]) -> str:
    """Returns what is wrong with the command line, and how to see the help."""
    parameter = getattr(error, "param", None)
    for option in getattr(parameter, "opts", ()):  # Typer's own message leaves out the value
        values = [after for name, after in pairwise(typed) if name == option]
        values += [word.removeprefix(f"{option}=") for word in typed if word.startswith(f"{option}=")]
        error.message = "".join(f"{value!r}: " for value in values[-1:]) + error.message
    message = error.format_message()
    context = getattr(error, "ctx", None)
    return message if context is None else f"{message} ({context.command_path} --help explains the options)"


def _said(error: BaseException) -> str:
    """Returns the error's message, which names the file that it is about."""
    if isinstance(error, OSError) and error.strerror is not None:
        return f"{error.filename or 'the output'}: {error.strerror}"
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return missing(error.name)
    if isinstance(error, MemoryError):
        return str(error) or "there is not enough memory"
    return str(error)


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

BYTES_AT_MOST = 4 * 1024**3  # a trace that would need more is refused
N_NEW = 100  # tokens, by default
RECIPE = "recipe.toml"  # in a run's folder: what is trained and how


def _named(given: Any) -> Any:
    """Returns a path or name that was typed, which must not be empty: `Path` takes that for the current folder."""
    if given == "":
        raise typer.BadParameter("it is empty: give a path or a name (a dot is the current folder)")
    return given


def _here(given: Any) -> Any:
    """Returns what `_named` returns, which must not be a web address."""
    no_address(given)
    return _named(given)


def _all_here(given: Any) -> Any:
    """Returns each of several values as `_here` does."""
    return given and [_here(one) for one in given]


def _tell_version(wanted: bool | None) -> None:
    if wanted:
        import glassformer

        _show(f"glassformer {glassformer.__version__}")
        raise typer.Exit


@app.callback()
def every_command(
    version: Annotated[
        bool | None,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version."),
    ] = None,
) -> None:
    """Glassformer: a Transformer you can see through."""


class Room(StrEnum):
    """Which of the two implementations is used."""

    scratch = "scratch"
    nn = "nn"


RoomOption = Annotated[Room, typer.Option(help="NumPy (scratch) or PyTorch (nn).")]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY",
        help="Read a config.json of Hugging Face, and its generation_config.json, as if they did not have this key; "
        "may be repeated. all: every key that is not known here.",
    ),
]
Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        callback=_named,
        help="The name of a published model or of one of the book's; a folder made by train, or one with config.json; "
        "a JSON file with a configuration; or a .safetensors file saved in a page of the book.",
    ),
]


@app.command()
def params(
    model: Model,
    other: Annotated[
        str | None,
        typer.Argument(
            metavar="OTHER", help="Another config.json, or its folder: only what differs is shown."
        ),
    ] = None,
    positions: Annotated[
        int, typer.Option(help="How many positions the model has read; for a config.json only.")
    ] = 100_000,
    ignore: IgnoreOption = None,
) -> None:
    """Count the parameters of a model, part by part: gpt2, gpt2-xl, bert-base, t5-base, llama-2-7b and others.

    For any config.json, it shows the layers, what they keep in the cache, what each key means, and whether our code
    runs the model.
    """
    from glassformer import pretrained

    files = [(name, pretrained.config_file(name)) for name in (model, other) if name is not None]
    checks.whole("--positions", positions)
    if other is not None:
        for name, file in files:
            if file is None:
                raise ValueError(f"{name} is not a config.json, and only two such files can be compared")
    if files[0][1] is None:
        _show(_config(model, ignore or ()).parameter_count())
        if pretrained.find(model) == "name":
            entry = published(model)
            if entry.n_drafts:
                _show(
                    f"in the files, too: {entry.n_drafts:,} of a layer for drafts, which our code leaves out"
                )
            _show(f"\nsource: {entry.source}")
            if entry.note:
                _show(f"note: {entry.note}")
        return
    _show(describe(*(report(file, positions) for _, file in files if file is not None), positions=positions))
    for name, _ in files:
        _show(f"\n{_verdict(name, ignore or ())}")


def _verdict(name: str, ignore: Collection[str]) -> str:
    """Says whether our code runs the model of a config.json, and otherwise exactly why not."""
    from glassformer import pretrained

    unknown: list[str] = []
    try:
        pretrained.configuration(name, ignore=ignore, warn=unknown.append)
    except (TypeError, ValueError) as error:
        return f"Our code does not run this file: {error}."
    if unknown:
        return f"Our code runs {name} only without some of its keys: {' '.join(unknown)}."
    return f"Our code runs {name}, in NumPy and in PyTorch."


@app.command()
def trace(
    model: Model = "teaching-736",
    length: Annotated[int, typer.Option(help="The number of tokens that the model reads.")] = 5,
    layers: Annotated[int | None, typer.Option(help="Build only the first blocks, this many.")] = None,
    room: RoomOption = Room.scratch,
) -> None:
    """Run a model once and list every array it computes, with its shape."""
    config = _config(model)
    if layers is not None:
        depth = {"n_layers": layers}
        if config.family == "encoder-decoder":
            depth["n_decoder_layers"] = layers
        with errors_about("--layers:"):
            config = config.replace(**depth)
    if not 1 <= length <= config.context_length:
        raise ValueError(
            f"--length {length} must be at least 1 and at most context_length={config.context_length}"
        )
    n_blocks = config.n_layers + (config.n_decoder_layers or 0)
    for what, n_numbers in (
        (f"{model} has", config.parameter_count().total),
        (f"with --length {length}, the attention of {model} has", n_blocks * config.n_heads * length**2),
    ):
        if 4 * n_numbers > BYTES_AT_MOST:
            raise ValueError(
                f"{what} {(4 * n_numbers + 2**29) // 2**30:,} GiB of weights in float32, too much for this command, "
                "which keeps them all: --layers 1 shows one block"
            )
    ids = np.arange(length)[None] % config.vocab_size
    inputs = {"source": ids} if config.family == "encoder-decoder" else {}
    if room is Room.nn:
        import torch

        from glassformer import nn

        built = nn.Transformer(config, generator=None)
        ids, inputs = torch.from_numpy(ids), {name: torch.from_numpy(array) for name, array in inputs.items()}
    else:
        from glassformer import scratch

        built = scratch.Transformer(config, generator=None)
    with looking_inside() as seen:
        built.eval()(ids, **inputs)
    _show(f"{model}, {config.family}: ids of shape {tuple(ids.shape)} go in")
    axes = {"B": 1, "T": length} | {letter: getattr(config, LETTERS[letter]) for letter in "DHKFV"}
    _show(", ".join(f"{letter} = {size:,}" for letter, size in axes.items()) + "\n")
    _show(seen)


@app.command()
def generate(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            callback=_named,
            help="One of the book's models (shakespeare or dates); a folder made by train, or one with config.json "
            "and model.safetensors; a .safetensors file saved in a page of the book; or a name on the hub.",
        ),
    ] = "shakespeare",
    prompt: Annotated[
        str | None,
        typer.Option(
            help="The text to continue; for an encoder–decoder, the text to read.",
            show_default="a line break",
        ),
    ] = None,
    n_new: Annotated[
        int | None,
        typer.Option(
            help="The largest number of new tokens.",
            show_default=f"{N_NEW}, or as many as fit into the context",
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(help="How random the text is; 0 always takes the likeliest token.", show_default="1"),
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest tokens only.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the likeliest tokens that together have this probability.")
    ] = None,
    min_p: Annotated[
        float | None,
        typer.Option(help="Leave out tokens whose probability is below this fraction of the highest."),
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Above 1, tokens that were used already become less likely.")
    ] = None,
    beams: Annotated[int, typer.Option(help="Above 1, use beam search, which is not random.")] = 1,
    seed: Annotated[
        int | None, typer.Option(help="The same seed draws the same text.", show_default="0")
    ] = None,
    slide: Annotated[
        bool, typer.Option(help="Continue past the model's context length, forgetting the beginning.")
    ] = False,
    room: RoomOption = Room.scratch,
    dtype: Annotated[
        str,
        typer.Option(
            help="What a model of Hugging Face is computed in; bfloat16, in PyTorch, needs half of float32's memory."
        ),
    ] = "float32",
    ignore: IgnoreOption = None,
) -> None:
    r"""Continue a text with a model and print it as it grows; an encoder–decoder reads the prompt and answers.

    A terminal shows control characters as escapes such as \x1b; a file or a pipe gets the text as it is.
    """
    # Imported here because counting and tracing do not need it.
    from glassformer import generate as generation
    from glassformer import pretrained
    from glassformer.decoding import IncrementalDecoder

    checks.whole("--beams", beams)
    for name, number, least in (("--seed", seed, 0), ("--n-new", n_new, 1)):
        if number is not None:
            checks.whole(name, number, at_least=least)
    strategy: dict[str, Any] = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
    }
    strategy = {name: value for name, value in strategy.items() if value is not None}
    if beams > 1:
        drawing = [*strategy, *(["seed"] if seed is not None else []), *(["slide"] if slide else [])]
        if drawing:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in drawing)
            raise ValueError(
                f"--beams {beams} searches for the likeliest text without drawing: leave out {options}"
            )

    opened = pretrained.load(model, room=room.value, dtype=dtype, ignore=ignore or ())
    if opened.tokenizer is None:
        opened.encode("")  # raises the error that says why
    config = opened.model.config
    reads = config.family == "encoder-decoder"
    if reads and prompt is None:
        raise ValueError(f"{model} needs a text to answer: give it one with --prompt")
    ids = _beginning(opened, model) if prompt is None else _ids_of(opened, prompt)
    begun = 1 if reads else len(ids)  # what the new ids follow
    if n_new is None:
        n_new = N_NEW if slide else max(1, min(N_NEW, config.context_length - begun))
    if begun + n_new > config.context_length and not slide:
        raise ValueError(
            f"--prompt of {len(ids)} ids and --n-new {n_new} make {begun + n_new}, more than the model's "
            f"context_length={config.context_length}"
            + ("" if beams > 1 else ": --slide continues past it, forgetting the beginning")
        )
    seen = min(begun + n_new, config.context_length)
    n_layers = config.n_decoder_layers or config.n_layers
    kept = sum(n * layer.attention.cached(seen) for layer, n in config.layers(n_layers).values())
    asked = f"--beams {beams}" if beams > 1 else f"--n-new {n_new}"
    checks.fits(asked, 4 * beams * (kept + 2 * config.vocab_size))
    checks.fits(f"--n-new {n_new}", 8 * beams * n_new)
    inputs = {
        "prompt_ids": None if reads else ids,
        "source": ids if reads else None,
        "start_id": opened.start_id,
        "stop_ids": opened.stop_ids,
    }
    if beams > 1:
        found = generation.beam_search(opened.model, n_new=n_new, n_beams=beams, progress=True, **inputs)
        _show(opened.decode(found[0][0].tolist()))
        return
    steps = generation.stream(
        opened.model,
        n_new=n_new,
        generator=np.random.default_rng(seed or 0),
        past_context="slide" if slide else "refuse",
        **inputs,
        **strategy,
    )
    decoder = IncrementalDecoder(opened.decode)
    for i in chain([] if reads else ids.tolist(), (int(step[0]) for step in steps)):
        if piece := decoder.push(i):
            _show(piece, nl=False)
    _show(decoder.finish())


@app.command()
def evaluate(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            callback=_named,
            help="One of the book's decoders (shakespeare or words); a folder made by train, or one with config.json, "
            "model.safetensors and tokenizer.json; a .safetensors file saved in a page of the book; or a name on the "
            "hub.",
        ),
    ],
    text: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            callback=_here,
            help="A text file in UTF-8; without it, the part of its own text that a model of train or of the book was "
            "not trained on.",
        ),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(help="The number of tokens of a window.", show_default="the model's context length"),
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(
            help="The number of tokens from one window to the next. A smaller one gives every token more context.",
            show_default="half a window",
        ),
    ] = None,
    room: RoomOption = Room.scratch,
    ignore: IgnoreOption = None,
) -> None:
    """Measure how well a decoder predicts a text: its loss, its perplexity, and bits per byte.

    Compare models that have different tokens by their bits per byte on one text, which --text names for both.
    """
    from glassformer import evaluation, pretrained
    from glassformer import text as texts

    for name, number in (("--length", length), ("--stride", stride)):
        if number is not None:
            checks.whole(name, number)
    content = None if text is None else texts.read_text(text)
    opened = pretrained.load(model, room=room.value, ignore=ignore or ())
    with errors_about(f"{model}:"):
        evaluation.check_family(opened.config.family)
    if opened.tokenizer is None:
        opened.encode("")  # raises the error that says why
    longest = opened.config.context_length
    if (length or 0) > longest:
        raise ValueError(f"--length {length} must be at most the model's context_length={longest}")
    length = length or longest
    stride = stride or max(1, length // 2)
    if stride > length:
        raise ValueError(f"--stride {stride} must be at most the length of a window, {length}")
    what = text
    if content is None:
        content, what = _held_out(opened, model)
    with errors_about(f"{what}:"):
        found = evaluation.evaluate(
            opened.model,
            opened.tokenizer,
            content,
            length=length,
            stride=stride,
            progress=sys.stderr.isatty(),
        )
    known = not math.isnan(found.standard_error)
    error = f"standard error {found.standard_error:.4f}" if known else "one window, so no standard error"
    _show(
        f"{model} on {what}\n\n"
        f"tokens         {found.n_tokens:,}, in windows of {length} that begin {stride} apart\n"
        f"bytes          {found.n_bytes:,}\n"
        f"loss           {found.loss:.4f} nats per token ({error})\n"
        f"perplexity     {found.perplexity:.4g}\n"
        f"bits per byte  {found.bits_per_byte:.4f}"
    )


def _held_out(opened: "Pretrained", model: str) -> tuple[str, str]:
    """Returns the part of a model's own text that it was not trained on, and what part that is.

    Raises:
        ValueError: it is not known which text that is, or there is no such part.
    """
    from glassformer import pretrained
    from glassformer import text as texts

    kind, kept = pretrained.find(model), Path(model) / RECIPE
    if kind == "shipped":
        data = Recipe.of_the_book(model).data
    elif kind == "run" and kept.exists():
        with errors_about(f"{kept}:"):
            data = Recipe.from_toml(_recipe(kept)).data
    else:
        raise ValueError(f"{model} does not say which text it was not trained on: name one with --text")
    content = OwnText(data.text, data.document_end)
    if not data.validation and not data.test:
        raise ValueError(f"{model} was trained on all of its text: name another one with --text")
    ids = ids_of(opened.tokenizer, content, Path(model) / IDS if kind == "run" else None)
    parts = texts.split_in_three(ids, data.validation, data.test)
    name = "test" if len(parts[2]) else "validation"
    share = data.test or data.validation
    where = f"the {name} part, {share:.3g} of its text, on which it was not trained"
    # Not `opened.decode`, which leaves out the ends of documents
    return opened.tokenizer.decode(parts[2] if len(parts[2]) else parts[1]), where


@app.command()
def train(
    into: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER",
            callback=_here,
            help="The folder for the run's recipe, log and checkpoints.",
        ),
    ],
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            callback=_all_here,
            help="A text file in UTF-8, or a folder with .txt files; may be repeated. Without it, the book's "
            "Shakespeare.",
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            callback=_here,
            help=f"What to train and how: {', '.join(RECIPES)}, or a TOML file.",
            show_default="modern; with --from, further",
        ),
    ] = None,
    begins_with: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            callback=_named,
            help="Begin with the weights of this model, which is named as for generate, and keep its tokenizer and "
            "its configuration.",
        ),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PART.FIELD=VALUE",
            help="Change one entry of the recipe, for example model.n_layers=6; may be repeated.",
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="The number of steps (training.steps).")] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            help="The number of texts per step, over all processes. With dropout, two processes give the same result "
            "as one with training.accumulation=2."
        ),
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="The highest learning rate of the schedule.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The seed of the initial weights, the batches and dropout.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda or mps; or auto, the best one available.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, or bfloat16 for matrix products.")] = None,
    compile: Annotated[
        bool | None, typer.Option("--compile/--no-compile", help="Let torch.compile fuse operations.")
    ] = None,
    sample_every: Annotated[
        int | None, typer.Option(help="Print a sample of the model's text whenever this many steps are done.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            help="Continue the run in this folder. With --steps above the number done, also one that has ended."
        ),
    ] = False,
) -> None:
    """Train a model on a text. Ctrl-C saves the run for later; under torchrun, several processes share it.

    A run that a signal has stopped ends with status 128 plus its number, as in a shell: 130 after Ctrl-C.
    """
    from glassformer import checkpoints, pretrained, shipped

    flags = {
        "steps": steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "seed": seed,
        "device": device,
        "dtype": dtype,
        "compile": None if compile is None else str(compile).lower(),
        "sample_every": sample_every,
    }
    folder = Path(into)
    kept = folder / RECIPE
    if os.path.lexists(folder) and not folder.is_dir():
        what = "a file" if folder.exists() else "a link to something that is missing"
        raise ValueError(f"{folder} is {what}, but a run needs a folder")
    goes_on = resume and kept.exists()
    if resume and not goes_on and checkpoints.latest(folder) is None:
        raise ValueError(
            f"--resume: {folder} has no run to continue: it has neither {RECIPE} nor a checkpoint"
        )
    if goes_on and recipe is not None:
        raise ValueError(f"--recipe {recipe} does not go with --resume: the run goes on with its own {kept}")
    if goes_on and begins_with is not None:
        raise ValueError(
            f"--from {begins_with} does not go with --resume: the run in {folder} has begun, and goes on with its own "
            "weights"
        )
    changes = [
        *([] if begins_with is None else [f"model.{FROM}={toml_value(begins_with)}"]),
        *(change or []),
        *([] if text is None else [f"data.text={toml_value(text[0] if len(text) == 1 else text)}"]),
        *(f"training.{name}={value}" for name, value in flags.items() if value is not None),
    ]
    source = kept if goes_on else recipe or ("modern" if begins_with is None else FURTHER)
    # Nothing is wrong in the book's own recipes: a message then names the flag's own field.
    written = _recipe(source)
    with contextlib.nullcontext() if source in (*RECIPES, FURTHER) else errors_about(f"{source}:"):
        chosen = Recipe.from_toml(written, changes).with_whole_path()
    begun = chosen.model.get(FROM)
    if begun is not None:
        chosen = _further(chosen)
    content = OwnText(chosen.data.text, chosen.data.document_end)
    if begun is None:
        base = None
        tokenizer, task, config = chosen.made_for(content, ids_file=folder / IDS)
    else:
        # A run that has a checkpoint no longer needs the model that it began with.
        base = pretrained.load(begun if checkpoints.latest(folder) is None else folder, room="nn")
        read = chosen.data.pairs or chosen.data.text or "the text of the book"
        with errors_about(f"{read}, --from {begun}:"):
            tokenizer, task, config = chosen.made_for(content, base, folder / IDS)

    # PyTorch takes seconds to import, so every flag and file has been read by now.
    import torch

    from glassformer import nn
    from glassformer.train import Trainer, continuing, initialize
    from glassformer.train.ram import check_memory

    check_memory(config, chosen.training)
    if base is None:
        model = nn.Transformer(config, generator=torch.Generator().manual_seed(chosen.training.seed))
        initialize(model, chosen.training)
    else:
        model = base.model
    begins = _first_prompt(next(iter(content)), tokenizer, task)
    sampler = continuing(tokenizer, begins) if config.family == "decoder" else None
    trainer = Trainer(
        model, task, chosen.training, folder, resume=resume, tokenizer=tokenizer, sampler=sampler
    )
    is_first = os.environ.get("RANK", "0") == "0"  # torchrun numbers its processes
    with only_writer(folder) if is_first else contextlib.nullcontext():
        if is_first:
            if not goes_on:
                _keep(chosen, kept)
            elif steps is not None:
                _keep_steps(steps, kept)
            _show(f"{chosen.to_toml()}\n{config.parameter_count()}\n")
            for doubt in doubts(config) if base is None else ():
                typer.echo(f"warning: {doubt}", err=True)
        try:
            records = trainer.run()
        except torch.OutOfMemoryError as error:
            raise MemoryError(
                f"the device is out of memory; a smaller --batch-size needs less: {error}"
            ) from error
    if trainer.stopped_by is not None:
        _give_up_printing()  # if the terminal was closed, the status is still the signal's
        raise typer.Exit(128 + trainer.stopped_by)
    if is_first and not trainer.was_interrupted:
        validated = [record for record in records if record.keys() & {"validation_loss", "test_loss"}]
        last = validated[-1] if validated else {}
        found = {name: loss for name, loss in last.items() if name.startswith(("validation", "test"))}
        if records and not found:
            last_loss = f"the last step's loss is {records[-1]['loss']:.4f}"
            _show(
                f"no validation loss, because data.validation=0 and data.test=0 hold nothing out; {last_loss}"
            )
        else:
            _show(", ".join(f"{name.replace('_', ' ')} {loss:.4f}" for name, loss in found.items()))
        knows_nothing = math.log(task.vocab_size)
        if "validation_loss" in last and not last["validation_loss"] < knows_nothing:
            typer.echo(
                f"warning: the model has learned nothing: equal probabilities for all {task.vocab_size} tokens give a "
                f"loss of {knows_nothing:.4f}; more steps or a smaller --learning-rate may help",
                err=True,
            )
        if config.family != "encoder":
            prompt = "" if begins == "\n" else f" --prompt {shlex.quote(begins)}"
            line = f"to generate text: python -m glassformer generate {shipped.as_typed(folder)}{prompt}"
            if _is_shown_as_it_is(line):  # or another command would be printed
                _show(line)


@app.command("class")
def classroom(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", callback=_here, help="The students' files.")],
    csv: Annotated[
        str | None, typer.Option(metavar="FILE", callback=_here, help="Write every verdict to this file.")
    ] = None,
    page: Annotated[
        str | None, typer.Option(metavar="FILE", callback=_here, help="Write an HTML page to print.")
    ] = None,
    exercises: Annotated[
        list[str] | None,
        typer.Option(metavar="FOLDER", callback=_all_here, help="Exercises of your own; may be repeated."),
    ] = None,
    seconds: Annotated[int, typer.Option(min=1, max=3600, help="Processor time for each file.")] = 30,
) -> None:
    """Judge students' files, NAME.py or NAME/my_transformer.py: who has what, and which mistakes the class makes.

    The code runs with your rights, in processes of its own but in no sandbox.
    """
    from glassformer.exercises import classroom as room

    students = room.judge(Path(folder), [Path(one) for one in exercises or ()], seconds)
    _show("\n\n".join(map(str, room.tables(students))))
    if csv is not None:
        write_whole(Path(csv), room.as_csv(students))
    if page is not None:
        write_whole(Path(page), room.as_page(students, Path(folder).resolve().name))


def _further(chosen: Recipe) -> Recipe:
    """Returns a recipe with `from` as it is carried out: its path from every folder, and nothing about new weights."""
    from glassformer import shipped

    begun = chosen.model[FROM]
    if begun not in shipped.NAMES and os.path.lexists(begun):
        begun = os.path.abspath(begun)
    for name, plain in (("init", "ours"), ("zero_init", False)):
        if (value := getattr(chosen.training, name)) != plain:
            typer.echo(
                f"warning: training.{name}={value} is left out: it is about the weights of a new model, and this run "
                f"begins with those of {begun}",
                err=True,
            )
    training = chosen.training.replace(init="ours", zero_init=False)
    return replace(chosen, model={**chosen.model, FROM: begun}, training=training)


def _is_shown_as_it_is(line: str) -> bool:
    """Returns whether the output has every character of a line, and no terminal obeys or hides one."""
    encoding = sys.stdout.encoding or "utf-8"
    return line.isprintable() and line.encode(encoding, "replace").decode(encoding) == line


def _first_prompt(content: str, tokenizer: Any, task: Any) -> str:
    """Returns a text with which the new model can be tried: the first to translate, or a line break if it knows one."""
    if (sources := getattr(task, "sources", None)) is not None:
        return tokenizer.decode(sources[0])
    if "\n" in content:
        return "\n"
    return next((letter for letter in content if letter.isprintable() and letter != " "), content[0])


def _keep(chosen: Recipe, kept: Path) -> None:
    """Writes the recipe into the run's folder. A file with the same recipe stays as it is, with its comments.

    Raises:
        ValueError: there is a file with another recipe.
    """
    if not kept.exists():
        write_whole(kept, chosen.to_toml().encode())
        return
    written = _recipe(kept)
    with errors_about(f"{kept}:"):
        there = Recipe.from_toml(written)
    if there != chosen:
        raise ValueError(
            f"{kept} already exists with another recipe, and no run overwrites it: there is no checkpoint beside it, "
            "so write the changes into that file and begin with --resume, or choose another folder"
        )


def _keep_steps(steps: int, kept: Path) -> None:
    """Writes a run's new number of steps into its recipe, and leaves the rest of the file as it is.

    Raises:
        ValueError: the file does not have the number in a line of its own.
    """
    written = _recipe(kept)
    if Recipe.from_toml(written).training.steps == steps:
        return
    changed = re.sub(r"(?m)^([ \t]*(?:training\.)?steps[ \t]*=[ \t]*)[0-9_+]+", rf"\g<1>{steps}", written)
    if Recipe.from_toml(changed).training.steps != steps:
        raise ValueError(f"--steps {steps}: write it into {kept} yourself, which has no line `steps = …`")
    write_whole(kept, changed.encode())


def _recipe(source: str | Path) -> str:
    """Returns the text of one of the book's recipes, or of a file."""
    if source in (*RECIPES, FURTHER):
        return toml_of(str(source))
    try:
        return text_in(Path(source), BYTES["TOML"])
    except FileNotFoundError:
        near = difflib.get_close_matches(str(source).lower(), RECIPES, n=1)
        raise ValueError(
            f"--recipe {source} is neither a file nor one of the book's recipes, {', '.join(RECIPES)}"
            + (f"; did you mean {near[0]!r}?" if near else "")
        ) from None


def _ids_of(opened: "Pretrained", prompt: str) -> np.ndarray:
    """Returns the ids of the prompt that was given."""
    with errors_about(f"--prompt {checks.shown(repr(prompt))}:"):
        ids = np.array(opened.encode(prompt), dtype=np.int64)
        if not len(ids):
            raise ValueError("the text is empty, and the model needs at least one id to continue from")
    return ids


def _beginning(opened: "Pretrained", model: str) -> np.ndarray:
    """Returns the ids of a line break, with which a text begins if no prompt was given."""
    with contextlib.suppress(ValueError):  # a character that is not in the vocabulary
        ids = np.array(opened.encode("\n"), dtype=np.int64)
        if len(ids):
            return ids
    raise ValueError(f"{model} has no line break to begin a text with: give it a beginning with --prompt")


def _config(name: str, ignore: Collection[str] = ()) -> ModelConfig:
    """Returns the configuration with that name or at that place, and warns of keys that are not known."""
    from glassformer import pretrained

    return pretrained.configuration(
        name, ignore=ignore, warn=lambda said: typer.echo(f"warning: {said}", err=True)
    )
