"""The command line: count a model's parameters, trace its shapes, generate text, train."""

import json
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from glassformer.config import ModelConfig
from glassformer.parameters import LETTERS
from glassformer.published import PUBLISHED, TEACHING, published
from glassformer.trace import trace as looking_inside
from glassformer.train.recipe import NAMES as RECIPES
from glassformer.train.recipe import Recipe, toml_of

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Glassformer: a Transformer you can see through.",
)

BYTES_AT_MOST = 4 * 1024**3  # a trace that would need more is refused
N_NEW = 100  # tokens, where nobody says how many


class Room(StrEnum):
    """Which of the two implementations works."""

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
        config = _or_complain(config.replace, **depth)
    if not 1 <= length <= config.context_length:
        raise typer.BadParameter(
            f"--length {length} must be at least 1 and at most context_length={config.context_length}"
        )
    n_bytes = 4 * config.parameter_count().total
    if n_bytes > BYTES_AT_MOST:
        raise typer.BadParameter(
            f"{model} has {n_bytes / 1024**3:.0f} GiB of weights in float32, and this command builds it: "
            "--layers 1 shows one block of it"
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
        str, typer.Option(help="The text to continue; for an encoder–decoder, the text to read.")
    ] = "\n",
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

    strategy = {
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
            raise typer.BadParameter(
                f"--beams {beams} looks for the likeliest text and draws nothing: leave out {options}"
            )

    opened = _opened(model, room)
    config = opened.model.config
    ids = np.array(opened.encode(prompt), dtype=np.int64)
    reads = config.family == "encoder-decoder"
    if n_new is None:
        room_left = config.context_length - (1 if reads else len(ids))
        n_new = N_NEW if slide else max(1, min(N_NEW, room_left))
    inputs = {
        "prompt_ids": None if reads else ids,
        "source": ids if reads else None,
        "start_id": opened.start_id,
        "stop_ids": opened.stop_ids,
    }
    if beams > 1:
        found = _or_complain(generation.beam_search, opened.model, n_new=n_new, n_beams=beams, **inputs)
        typer.echo(opened.decode(found[0][0]))
        return
    steps = _or_complain(
        generation.stream,
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
    batch_size: Annotated[int | None, typer.Option(help="Texts in a step, over all processes.")] = None,
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

    from glassformer import nn
    from glassformer import text as texts
    from glassformer.train import Trainer, continuing

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
    kept = folder / "recipe.toml"
    goes_on = resume and kept.exists()
    changes = [
        *(change or []),
        *([] if text is None else [f"data.text={json.dumps(str(text.resolve()))}"]),
        *(f"training.{name}={value}" for name, value in flags.items() if value is not None),
    ]
    chosen = _or_complain(Recipe.from_toml, _recipe(kept if goes_on else recipe), changes)
    file = chosen.data.text
    content = texts.corpus() if file is None else _or_complain(texts.read_text, file)
    tokenizer, task, config = _or_complain(chosen.made_for, content)

    model = nn.Transformer(config, generator=torch.Generator().manual_seed(chosen.training.seed))
    begins = "\n" if "\n" in content else content[0]
    sampler = continuing(tokenizer, begins) if config.family == "decoder" else None
    trainer = _or_complain(
        Trainer, model, task, chosen.training, folder, resume=resume, tokenizer=tokenizer, sampler=sampler
    )
    is_first = os.environ.get("RANK", "0") == "0"  # torchrun numbers its processes
    if is_first:
        typer.echo(f"{chosen.to_toml()}\n{config.parameter_count()}\n")
        folder.mkdir(parents=True, exist_ok=True)
        if not goes_on:
            kept.write_text(chosen.to_toml(), encoding="utf-8")
    records = trainer.run()
    if is_first and not trainer.was_interrupted:
        found = {name: loss for name, loss in records[-1].items() if name.startswith(("validation", "test"))}
        typer.echo(", ".join(f"{name.replace('_', ' ')} {loss:.4f}" for name, loss in found.items()))
        if config.family != "encoder":
            typer.echo(f"to let it write: python -m glassformer generate {folder}")


def _recipe(source: str | Path) -> str:
    """The text of a recipe of the book's, or of a file."""
    if source in RECIPES:
        return toml_of(source)
    try:
        return Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"--recipe {source}: {error}; known are {', '.join(RECIPES)}") from None


class Opened(NamedTuple):
    """A model, what turns text into its ids and back, and the ids that begin and end what it says."""

    model: Any
    encode: Callable
    decode: Callable
    start_id: int
    stop_ids: list[int]


def _opened(name: str, room: Room) -> Opened:
    """The model of that name or in that folder. The book's own names come first: ./dates is a folder."""
    from glassformer import checkpoints, huggingface, shipped
    from glassformer.huggingface.files import CONFIG
    from glassformer.text import tokenizer_from_json

    if name in shipped.NAMES:
        return _ours(*_or_complain(shipped.load, name, room=room.value))
    if Path(name).is_dir() and not (Path(name) / CONFIG).exists():
        checkpoint = _or_complain(checkpoints.load, name)
        if checkpoint.tokenizer is None:
            raise typer.BadParameter(f"{name} has no tokenizer: it was trained without one")
        built = _or_complain(checkpoints.model_of, checkpoint.model_config, checkpoint.best, room=room.value)
        return _ours(built, tokenizer_from_json(checkpoint.tokenizer))
    built = _or_complain(huggingface.load, name, room=room.value)
    tokenizer = _or_complain(huggingface.tokenizer, name)
    stop_ids = huggingface.stop_ids(name)
    return Opened(built, lambda text: tokenizer.encode(text).ids, tokenizer.decode, 0, stop_ids)


def _ours(model: Any, tokenizer: Any) -> Opened:
    """A model that was trained here, whose tokenizer knows nothing of the ids that stand for no text."""
    from glassformer.train.recipe import special_ids

    special = special_ids(model.config.family, tokenizer.vocab_size)
    stop_ids = [special["stop"]] if "stop" in special else []
    return Opened(
        model,
        lambda text: _or_complain(tokenizer.encode, text),
        lambda ids: tokenizer.decode([i for i in ids if i < tokenizer.vocab_size]),
        special.get("start", 0),
        stop_ids,
    )


def _config(name: str) -> ModelConfig:
    """The configuration behind a name or in a file."""
    if name.endswith(".json"):
        try:
            return _or_complain(ModelConfig.from_json, Path(name).read_text(encoding="utf-8"))
        except OSError as error:
            raise typer.BadParameter(f"{name}: {error.strerror}") from None
    return _or_complain(published, name).config


def _or_complain(function: Any, *arguments: Any, **options: Any) -> Any:
    """What the function gives; what it refuses becomes an error of the command line, without a traceback."""
    try:
        return function(*arguments, **options)
    except (ValueError, TypeError, OSError, ImportError) as error:
        raise typer.BadParameter(str(error)) from None
