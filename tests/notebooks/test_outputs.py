"""What a notebook prints is the same on every machine: no measured time, and no rounding noise instead of a zero."""

import re

import nbformat
import pytest
from bs4 import BeautifulSoup

from tools import notebooks

PAIRS = notebooks.pairs()
IDS = [notebook.relative_to(notebooks.ROOT / "notebooks").as_posix() for _, notebook in PAIRS]

# A whole number of minutes or hours is an estimate, such as an exercise's; 1000s are thousands.
AMOUNT = r"(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?"
TIMING = re.compile(
    rf"{AMOUNT}\s?(?:ms|[µμu]s|ns|milliseconds?|sec|secs|seconds?)\b"
    rf"|{AMOUNT}\s?(?:it/s|s/it)"
    rf"|{AMOUNT}\ss\b|(?<![\w.,])(?:\d+\.\d+|\d{{1,3}})s\b"
    r"|(?<![\w.,])\d+\.\d+\s?(?:min|minutes?|h|hours?)\b"
    r"|\b(?:took|after|in|elapsed:?|[Tt]ime:)\s\d+\s?(?:min|minutes?|h|hours?)\b"
    rf"|{AMOUNT}\s?[kM]?\s?[\w ]*?(?:/\s?s|\bper second|\ba second)\b"
    r"|\bCPU times:|\bWall time:"
)
NUMBER = re.compile(r"(?<![\w.])[-−+]?(?:\d+\.?\d*e[-−]\d+|0\.0{10,}\d+)", re.IGNORECASE)
BOUND = re.compile(r"(?:<|≤|less than|below|under|at most)\s?$")
NOISE = 1e-12  # sums of float64 that should be 0 are smaller than this; larger errors are told with a bound

# Numbers that are as small as this: shares of a stream that halve 96 times, gradients at the bottom of 64 blocks, and a
# gradient that came through 200 layers without residuals.
MEANT = {
    "experiments/norm_placement.ipynb": {"5e-13"},
    "exercises/05-practice.ipynb": {"1e-29"},
    "exercises/09-practice.ipynb": {"1.2e-107"},
}


def outputs(notebook):
    """(cell's index, type, text) of everything that is shown as text, and of the texts of the widgets' traits."""
    models = notebook.metadata.get("widgets", {}).get(notebooks.WIDGET_STATE, {}).get("state", {})
    for index, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if "text" in output:
                yield index, "text/plain", output.text
            for kind, data in output.get("data", {}).items():
                if isinstance(data, str) and (kind.startswith("text/") or kind == "image/svg+xml"):
                    yield index, kind, data
            if view := output.get("data", {}).get(notebooks.WIDGET_VIEW):
                for text in texts(models.get(view["model_id"], {}).get("state", {})):
                    yield index, "text/plain", text


def texts(trait):
    """What a trait says in words; a name with an underscore is no reader's."""
    if isinstance(trait, str):
        yield trait
    elif isinstance(trait, dict):
        for name, value in trait.items():
            if not name.startswith("_"):
                yield from texts(value)
    elif isinstance(trait, list):
        for value in trait:
            yield from texts(value)


def seen(kind, text):
    """The words of an output without its markup: a style may well take 0.2 seconds."""
    if kind not in ("text/html", "image/svg+xml"):
        return text
    page = BeautifulSoup(text, "html.parser")
    for hidden in page(["style", "script"]):
        hidden.decompose()
    return page.get_text(" ")


def timings(text):
    return [found[0] for found in TIMING.finditer(text)]


def noise(text):
    """Numbers that are nothing but rounding. A number that others are said to be smaller than is none."""
    found = (each for each in NUMBER.finditer(text) if not BOUND.search(text[: each.start()]))
    return [each[0] for each in found if 0 < abs(float(each[0].replace("−", "-"))) < NOISE]


def unsteady(notebook, name):
    """What another machine would print differently, each with its place."""
    found = []
    for index, kind, text in outputs(notebook):
        found += [f"{name}, cell {index}: {time!r} is a measured time" for time in timings(seen(kind, text))]
        found += [
            f"{name}, cell {index}: {number} is rounding noise; say a bound, or that it is zero"
            for number in noise(text)
            if number not in MEANT.get(name, ())
        ]
    return found


@pytest.mark.parametrize("notebook", [notebook for _, notebook in PAIRS], ids=IDS)
def test_nothing_that_is_printed_depends_on_the_machine(notebook):
    name = notebook.relative_to(notebooks.ROOT / "notebooks").as_posix()
    found = unsteady(nbformat.read(notebook, as_version=4), name)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", MEANT)
def test_small_numbers_that_are_meant_are_still_printed(name):
    printed = [
        number
        for _, _, text in outputs(nbformat.read(notebooks.ROOT / "notebooks" / name, 4))
        for number in noise(text)
    ]
    assert set(printed) == MEANT[name]


V4 = nbformat.v4
HTML = '<p style="transition: 0.2s">off by <b>{}</b></p>'


@pytest.mark.parametrize(
    ("output", "number"),
    [
        (V4.new_output("stream", text="a pass: 12.3 ms\n"), "'12.3 ms' is a measured time"),
        (V4.new_output("stream", text="done in 0.8 s"), "'0.8 s' is a measured time"),
        (V4.new_output("stream", text="took 3s"), "'3s' is a measured time"),
        (V4.new_output("stream", text="took 4 minutes"), "'took 4 minutes' is a measured time"),
        (V4.new_output("stream", text="100%|███| 9/9 [00:01, 8.90it/s]"), "'8.90it/s' is a measured time"),
        (
            V4.new_output("stream", text="1,234 tokens per second"),
            "'1,234 tokens per second' is a measured time",
        ),
        (V4.new_output("stream", text="512 tokens/s"), "'512 tokens/s' is a measured time"),
        (V4.new_output("display_data", {"text/html": HTML.format("7 µs")}), "'7 µs' is a measured time"),
        (V4.new_output("stream", text="differs by 3.4e-17"), "3.4e-17 is rounding noise"),
        (V4.new_output("stream", text="[1.0, −2.2E−16]"), "−2.2E−16 is rounding noise"),
        (V4.new_output("stream", text="sum 0.00000000000000022"), "0.00000000000000022 is rounding noise"),
        (V4.new_output("execute_result", {"text/plain": "1e-18"}), "1e-18 is rounding noise"),
        (V4.new_output("display_data", {"text/html": HTML.format("5e-15")}), "5e-15 is rounding noise"),
        (
            V4.new_output("display_data", {notebooks.WIDGET_VIEW: {"model_id": "m"}}),
            "4e-16 is rounding noise",
        ),
    ],
)
def test_a_time_and_noise_are_found_and_named(output, number):
    state = {"state": {"m": {"state": {"lines": ["off by 4e-16"], "_esm": "const small = 1e-17;"}}}}
    cells = [V4.new_markdown_cell("2.5 ms, and 1e-17"), V4.new_code_cell("run()", outputs=[output])]
    notebook = V4.new_notebook(cells=cells, metadata={"widgets": {notebooks.WIDGET_STATE: state}})
    [found] = unsteady(notebook, "01-sums.ipynb")
    assert found.startswith(f"01-sums.ipynb, cell 1: {number}")


@pytest.mark.parametrize(
    "text",
    [
        "not attempted yet (★, about 15 min)",
        "0 of 6 done; about 65 minutes left.",
        "multiply–adds, 1000s",
        "s = np.divide(1, s)",
        "off by less than 1e-14: True",
        "<1e-14",
        "5e-10 and 2e-3",
        "0.0000",
    ],
)
def test_estimates_bounds_and_what_is_merely_small_may_stand(text):
    assert timings(text) + noise(text) == []
