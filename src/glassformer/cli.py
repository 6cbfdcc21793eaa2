"""The command line: count a model's parameters, trace its shapes, generate text, train."""

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import numpy as np
import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.documents import BYTES, text_in
from glassformer.parameters import LETTERS
from glassformer.published import PUBLISHED, TEACHING, published
from glassformer.rooms import AnyTransformer
from glassformer.trace import trace as looking_inside
from glassformer.train.recipe import NAMES as RECIPES
from glassformer.train.recipe import Recipe, toml_of, toml_value
from glassformer.writing import only_writer, write_whole

REFUSED = (ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError)
"""What input may raise that cannot be used. Whatever else is raised is a mistake in the program."""

LONGEST = 2000  # characters of a message


class Commands(TyperGroup):
    """The commands, all under one guard: what cannot be done is told in one line, and the status is 2."""

    def main(
        self, args: Sequence[str] | None = None, *names: Any, standalone_mode: bool = True, **options: Any
    ) -> Any:
        """Runs the command that the arguments name. Afterwards everything printed has left this program."""
        typed = sys.argv[1:] if args is None else list(args)
        if not standalone_mode:
            return super().main(typed, *names, standalone_mode=False, **options)
        try:
            # Who types nothing is shown what may be typed.
            status = super().main(typed or ["--help"], *names, standalone_mode=False, **options)
            sys.stdout.flush()
            sys.exit(status or 0)
        except BrokenPipeError:  # whoever read it has read enough
            _give_up_printing()
            sys.exit(1)
        except TyperException as error:
            _complain(_usage(error, typed))
        except REFUSED as error:
            _complain(_said(error))


def _complain(message: str) -> NoReturn:
    """Prints it as one line, in characters that every terminal can show, and ends the program."""
    line = " ".join(message.split())
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    _give_up_printing()
    with contextlib.suppress(OSError):  # where nothing can be said at all, the status says it
        typer.echo(f"Error: {line if len(line) <= LONGEST else line[:LONGEST] + '…'}", err=True)
    sys.exit(2)


def _give_up_printing() -> None:
    """Flushes what was printed; where that fails, keeps Python from trying again, and complaining, at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: Any, typed: list[str]) -> str:
    """Returns what is wrong with the line that was typed, and how to see what may be typed."""
    parameter = getattr(error, "param", None)
    for option in getattr(parameter, "opts", ()):  # Typer's own words leave out which value it was
        values = [after for name, after in pairwise(typed) if name == option]
        values += [word.removeprefix(f"{option}=") for word in typed if word.startswith(f"{option}=")]
        error.message = "".join(f"{value!r}: " for value in values[-1:]) + error.message
    message = error.format_message()
    context = getattr(error, "ctx", None)
    return message if context is None else f"{message} ({context.command_path} --help says more)"


def _said(error: BaseException) -> str:
    """The error in words that name what it is about."""
    if isinstance(error, OSError) and error.strerror is not None:
        return f"{error.filename or 'what is printed'}: {error.strerror}"
    if isinstance(error, MemoryError):
        return str(error) or "there is not enough memory for this"
    return str(error)


@contextlib.contextmanager
def _about(what: object) -> Iterator[None]:
    """Makes messages begin with the name of the file or flag that they are about."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise ValueError(f"{what}: {error}") from error


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Glassformer: a Transformer you can see through.",
)

BYTES_AT_MOST = 4 * 1024**3  # a trace that would need more is refused
N_NEW = 100  # tokens, where nobody says how many
RECIPE = "recipe.toml"  # in a run's folder: what is trained and how


class Room(StrEnum):
    """The implementation to use."""

    scratch = "scratch"
    nn = "nn"


RoomOption = Annotated[Room, typer.Option(help="NumPy (scratch) or PyTorch (nn).")]
Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A published model's name, or a file with a configuration in JSON."),
]


@app.command()
def params(model: Model) -> None:
    """Count a model's parameters, part by part: gpt2, gpt2-xl, bert-base, t5-base, llama-2-7b and others."""
    config = _config(model)
    typer.echo(config.parameter_count())
    if model in PUBLISHED | TEACHING:
        entry = published(model)
        typer.echo(f"\nsource: {entry.source}")
        if entry.note:
            typer.echo(f"note: {entry.note}")


@app.command()
def trace(
    model: Model = "teaching-736",
    length: Annotated[int, typer.Option(help="How many tokens go in.")] = 5,
    layers: Annotated[int | None, typer.Option(help="Keep only so many blocks: all are alike.")] = None,
    room: RoomOption = Room.scratch,
) -> None:
    """Run a model once and list every array it computes, with its shape."""
    config = _config(model)
    if layers is not None:
        depth = {"n_layers": layers}
        if config.family == "encoder-decoder":
            depth["n_decoder_layers"] = layers
        with _about("--layers"):
            config = config.replace(**depth)
    if not 1 <= length <= config.context_length:
        raise ValueError(
            f"--length {length} must be at least 1 and at most context_length={config.context_length}"
        )
    n_blocks = config.n_layers + (config.n_decoder_layers or 0)
    n_bytes = 4 * config.parameter_count().total
    if n_bytes > BYTES_AT_MOST:
        raise ValueError(
            f"{model} has {(n_bytes + 2**29) // 2**30:,} GiB of weights in float32, and this command builds it: "
            "--layers 1 shows one block of it"
        )
    n_bytes = 4 * n_blocks * config.n_heads * length**2
    if n_bytes > BYTES_AT_MOST:
        raise ValueError(
            f"--length {length} asks {model} for {(n_bytes + 2**29) // 2**30:,} GiB of attention's weights in "
            "float32, and this command keeps them all: --layers 1 shows one block"
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
    typer.echo(f"{model}, {config.family}: ids of shape {tuple(ids.shape)} go in")
    axes = {"B": 1, "T": length} | {letter: getattr(config, LETTERS[letter]) for letter in "DHKFV"}
    typer.echo(", ".join(f"{letter} = {size:,}" for letter, size in axes.items()) + "\n")
    typer.echo(seen)


@app.command()
def generate(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="One of the book's own, shakespeare or dates; a folder that train made, or one with config.json and "
            "model.safetensors; or a hub name.",
        ),
    ] = "shakespeare",
    prompt: Annotated[
        str | None,
        typer.Option(
            help="The text to continue; for an encoder–decoder, the text to read.", show_default="a new line"
        ),
    ] = None,
    n_new: Annotated[
        int | None,
        typer.Option(
            help="At most how many new tokens.", show_default=f"{N_NEW}, or what the context has room for"
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="0 always takes the likeliest token.", show_default="1")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest tokens only.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the likeliest that make up this probability.")
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Leave out what is less likely than this share of the likeliest.")
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Above 1: less of what was said already.")
    ] = None,
    beams: Annotated[int, typer.Option(help="More than 1: beam search, which draws nothing.")] = 1,
    seed: Annotated[
        int | None, typer.Option(help="The same seed draws the same text.", show_default="0")
    ] = None,
    slide: Annotated[
        bool, typer.Option(help="Go on past the model's context, and forget the beginning.")
    ] = False,
    room: RoomOption = Room.scratch,
) -> None:
    """Continue a text with a model, and print it as it grows; an encoder–decoder reads the prompt and answers."""
    # Imported here, since counting and tracing need none of it.
    from glassformer import generate as generation

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
                f"--beams {beams} looks for the likeliest text and draws nothing: leave out {options}"
            )

    opened = _opened(model, room)
    config = opened.model.config
    reads = config.family == "encoder-decoder"
    if reads and prompt is None:
        raise ValueError(f"{model} reads a text and answers: give it one with --prompt")
    prompt = "\n" if prompt is None else prompt
    with _about(f"--prompt {prompt!r}"):
        ids = np.array(opened.encode(prompt), dtype=np.int64)
        if not len(ids):
            raise ValueError("there is nothing to go on from, not even one id")
    begun = 1 if reads else len(ids)  # what the new ids follow
    if n_new is None:
        n_new = N_NEW if slide else max(1, min(N_NEW, config.context_length - begun))
    if begun + n_new > config.context_length and not slide:
        raise ValueError(
            f"--prompt of {len(ids)} ids and --n-new {n_new} make {begun + n_new}, more than the model's "
            f"context_length={config.context_length}"
            + ("" if beams > 1 else ": --slide goes on past it, and forgets the beginning")
        )
    kept = config.n_layers * 2 * config.n_kv_heads * config.d_head  # keys and values, of each id
    seen = min(begun + n_new, config.context_length)
    checks.fits(f"--beams {beams}", 4 * beams * (kept * seen + 2 * config.vocab_size))
    checks.fits(f"--n-new {n_new}", 8 * beams * n_new)
    inputs = {
        "prompt_ids": None if reads else ids,
        "source": ids if reads else None,
        "start_id": opened.start_id,
        "stop_ids": opened.stop_ids,
    }
    if beams > 1:
        found = generation.beam_search(opened.model, n_new=n_new, n_beams=beams, **inputs)
        typer.echo(opened.decode(found[0][0]))
        return
    steps = generation.stream(
        opened.model,
        n_new=n_new,
        generator=np.random.default_rng(seed or 0),
        past_context="slide" if slide else "refuse",
        **inputs,
        **strategy,
    )
    text = [] if reads else list(ids)
    shown = ""
    for step in steps:
        text.append(int(step[0]))
        now = opened.decode(text)
        # A token may be part of a character: what is not whole yet waits for the next one.
        if now.startswith(shown) and not now.endswith("\N{REPLACEMENT CHARACTER}"):
            typer.echo(now[len(shown) :], nl=False)
            shown = now
    typer.echo(opened.decode(text)[len(shown) :])


@app.command()
def train(
    folder: Annotated[Path, typer.Argument(help="Where the run is kept: recipe, log, checkpoints.")],
    text: Annotated[
        Path | None, typer.Option(help="A file of text in UTF-8; without it, the book's Shakespeare.")
    ] = None,
    recipe: Annotated[
        str, typer.Option(help=f"What to train and how: {', '.join(RECIPES)}; or a TOML file.")
    ] = "modern",
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PART.FIELD=VALUE",
            help="Change the recipe, such as model.n_layers=6; repeatable.",
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="How many steps (training.steps).")] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            help="Texts in a step, over all processes. With dropout, two of them do what one does with "
            "training.accumulation=2."
        ),
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="The optimizer's rate at its highest.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the first weights, the batches, the dropout.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; or auto, the best there is.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, or bfloat16 in matrix products.")] = None,
    compile: Annotated[
        bool | None, typer.Option("--compile/--no-compile", help="Let torch.compile join operations.")
    ] = None,
    sample_every: Annotated[
        int | None, typer.Option(help="Show what the model writes every so many steps.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the run in the folder.")] = False,
) -> None:
    """Train a model on a text. Ctrl-C saves and says how to go on; under torchrun several processes train together."""
    import torch

    from glassformer import checkpoints, nn
    from glassformer import text as texts
    from glassformer.train import Trainer, continuing
    from glassformer.train.ram import check_memory

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
    kept = folder / RECIPE
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, and a run is kept in a folder")
    goes_on = resume and kept.exists()
    if resume and not goes_on and checkpoints.latest(folder) is None:
        raise ValueError(f"--resume: {folder} has no run to go on with, neither {RECIPE} nor a checkpoint")
    changes = [
        *(change or []),
        *([] if text is None else [f"data.text={toml_value(str(text))}"]),
        *(f"training.{name}={value}" for name, value in flags.items() if value is not None),
    ]
    source = kept if goes_on else recipe
    # In the book's own recipes nothing is wrong: what a flag changed has its own name.
    with contextlib.nullcontext() if source in RECIPES else _about(source):
        chosen = Recipe.from_toml(_recipe(source), changes).with_whole_path()
    file = chosen.data.text
    content = texts.corpus() if file is None else texts.read_text(file)
    tokenizer, task, config = chosen.made_for(content)
    check_memory(config, chosen.training)

    model = nn.Transformer(config, generator=torch.Generator().manual_seed(chosen.training.seed))
    begins = "\n" if "\n" in content else content[0]
    sampler = continuing(tokenizer, begins) if config.family == "decoder" else None
    trainer = Trainer(
        model, task, chosen.training, folder, resume=resume, tokenizer=tokenizer, sampler=sampler
    )
    is_first = os.environ.get("RANK", "0") == "0"  # torchrun numbers its processes
    with only_writer(folder) if is_first else contextlib.nullcontext():
        if is_first:
            if not goes_on:
                _keep(chosen, kept)
            typer.echo(f"{chosen.to_toml()}\n{config.parameter_count()}\n")
        try:
            records = trainer.run()
        except torch.OutOfMemoryError as error:
            raise MemoryError(
                f"the device's memory is full, a smaller --batch-size needs less: {error}"
            ) from error
    if is_first and not trainer.was_interrupted:
        validated = [record for record in records if "validation_loss" in record]
        last = validated[-1] if validated else {}
        found = {name: loss for name, loss in last.items() if name.startswith(("validation", "test"))}
        typer.echo(", ".join(f"{name.replace('_', ' ')} {loss:.4f}" for name, loss in found.items()))
        if config.family != "encoder":
            prompt = (
                "" if config.family == "decoder" and begins == "\n" else f" --prompt {shlex.quote(begins)}"
            )
            typer.echo(f"to let it write: python -m glassformer generate {folder}{prompt}")


def _keep(chosen: Recipe, kept: Path) -> None:
    """Writes the recipe into the run's folder. A file that says the same stays, with the comments of whoever wrote it.

    Raises:
        ValueError: there is a file that says something else.
    """
    if not kept.exists():
        write_whole(kept, chosen.to_toml().encode())
        return
    with _about(kept):
        there = Recipe.from_toml(_recipe(kept))
    if there != chosen:
        raise ValueError(
            f"{kept} is there already and says something else, and no run overwrites it: --resume goes on with "
            "what it says, or choose another folder"
        )


def _recipe(source: str | Path) -> str:
    """The text of a recipe of the book's, or of a file."""
    if source in RECIPES:
        return toml_of(source)
    try:
        return text_in(Path(source), BYTES["TOML"])
    except FileNotFoundError as error:
        raise ValueError(f"--recipe {source}: {error}; known are {', '.join(RECIPES)}") from None


class Opened(NamedTuple):
    """A model, what turns text into its ids and back, and the ids that begin and end what it says."""

    model: AnyTransformer
    encode: Callable
    decode: Callable
    start_id: int
    stop_ids: list[int]


def _opened(name: str, room: Room) -> Opened:
    """The model of that name or in that folder. The book's own names come first: ./dates is a folder."""
    from glassformer import checkpoints, huggingface, shipped
    from glassformer.huggingface.files import CONFIG, TOKENIZER
    from glassformer.text import library_errors, tokenizer_from_json

    if name in shipped.NAMES:
        return _ours(*shipped.load(name, room=room.value))
    if Path(name).is_dir() and not (Path(name) / CONFIG).exists():
        checkpoint = checkpoints.load(name)
        if checkpoint.tokenizer is None:
            raise ValueError(f"{name} has no tokenizer: it was trained without one")
        with _about(f"{name}, {checkpoints.TOKENIZER}"):
            tokenizer = tokenizer_from_json(checkpoint.tokenizer)
        with _about(name):
            built = checkpoints.model_of(checkpoint.model_config, checkpoint.best, room=room.value)
        return _ours(built, tokenizer)
    built = huggingface.load(name, room=room.value)
    tokenizer = huggingface.tokenizer(name)
    stop_ids = huggingface.stop_ids(name)
    start_id = huggingface.start_id(name) if built.config.family == "encoder-decoder" else 0

    def encode(text: str) -> list[int]:
        with library_errors(f"{name}, {TOKENIZER}"):
            return tokenizer.encode(text).ids

    def decode(ids: list[int]) -> str:
        with library_errors(f"{name}, {TOKENIZER}"):
            return tokenizer.decode(ids)

    return Opened(built, encode, decode, start_id, stop_ids)


def _ours(model: AnyTransformer, tokenizer: Any) -> Opened:
    """A model that was trained here, whose tokenizer knows nothing of the ids that stand for no text."""
    from glassformer.train.recipe import special_ids

    if tokenizer.vocab_size > model.config.vocab_size:
        raise ValueError(
            f"the tokenizer has {tokenizer.vocab_size} ids, and the model's vocab_size={model.config.vocab_size}: "
            "they are from two runs"
        )
    special = special_ids(model.config.family, tokenizer.vocab_size)
    stop_ids = [special["stop"]] if "stop" in special else []
    return Opened(
        model,
        tokenizer.encode,
        lambda ids: tokenizer.decode([i for i in ids if i < tokenizer.vocab_size]),
        special.get("start", 0),
        stop_ids,
    )


def _config(name: str) -> ModelConfig:
    """The configuration behind a name or in a file."""
    if name.endswith(".json"):
        text = text_in(Path(name), BYTES["JSON"])
        with _about(name):
            return ModelConfig.from_json(text)
    return published(name).config
