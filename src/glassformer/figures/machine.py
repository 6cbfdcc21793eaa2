"""Draws the whole machine in miniature, with the parts built so far, or with numbered notes; parts link to chapters."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

from IPython.display import HTML

from glassformer import _checks as checks
from glassformer.contents import Chapter, chapter
from glassformer.figures.style import arrow, framed, variable

WIDTH, HEIGHT = 360, 480
_ROW = 34  # the height of a box


@dataclass(frozen=True)
class Part:
    """One part of the machine: the chapter that builds it, its colour, and its place in the drawing."""

    name: str
    chapter: str  # the number of the chapter that builds it
    role: str  # of roles.json
    boxes: tuple[tuple[int, int, int, int], ...]  # left, top, width, height; a part can have several boxes


PARTS = (
    Part("tokens", "02", "prediction", ((24, 10, 114, _ROW),)),
    Part("embedding", "02", "residual", ((24, 62, 128, _ROW),)),
    Part("attention", "03", "query", ((204, 134, 130, _ROW),)),
    Part("positions", "04", "position", ((204, 62, 130, _ROW),)),
    Part("stream", "05", "residual", ((32, 134, 28, 142),)),
    Part("norm", "05", "norm", ((108, 134, 72, _ROW), (108, 216, 72, _ROW), (24, 336, 114, _ROW))),
    Part("feed-forward", "06", "feedforward", ((200, 216, 138, _ROW),)),
    Part("block × N", "07", "value", ((216, 282, 118, 26),)),
    Part("head", "08", "prediction", ((24, 388, 108, _ROW),)),
    Part("loss", "09", "key", ((152, 388, 66, _ROW),)),
    Part("training", "10", "key", ((234, 388, 100, _ROW),)),
    Part("generating", "11", "prediction", ((24, 440, 128, _ROW),)),
)
"""All parts, in the order in which the chapters build them. The text about a part is written only here."""

# The lines between the boxes, as points; a line that leads into a box ends in an arrowhead.
_FLOW = (
    ((178, 27), (141, 27)),  # the text enters
    ((78, 44), (78, 59)),
    ((204, 79), (155, 79)),  # positions that are added to the input …
    ((269, 96), (269, 131)),  # … or act inside attention
    ((78, 151), (105, 151)),  # each sublayer reads the stream …
    ((180, 151), (201, 151)),
    ((269, 168), (269, 188), (92, 188)),  # … and adds to it
    ((78, 233), (105, 233)),
    ((180, 233), (197, 233)),
    ((269, 250), (269, 268), (92, 268)),
    ((78, 370), (78, 385)),
    ((78, 422), (78, 437)),
    ((132, 405), (149, 405)),
    ((218, 405), (231, 405)),
)
_STREAM = (((78, 96), (78, 177)), ((78, 199), (78, 257)), ((78, 279), (78, 336)))
_RETURNS = (
    ((24, 457), (7, 457), (7, 27), (21, 27)),  # the generated text is read again
    ((334, 405), (353, 405), (353, 295), (347, 295)),  # training changes the blocks
)
_PLUS = ((78, 188), (78, 268))
_FRAME = (18, 112, 326, 206)  # of the block
_SIGNS = "①②③④⑤⑥⑦⑧⑨"
_LIST = "list-style: none; max-width: 30rem; margin: .5em auto 0; padding: 0"
_PATH = (
    "A text becomes tokens, tokens become vectors that know their positions, a stack of blocks changes these, "
    "each with attention and a feed-forward network that read a norm of the stream and add to it, and a norm and "
    "a head make of them what comes next; the loss and training change the machine, generating reads what it wrote."
)


def machine_so_far(number: str) -> HTML:
    """Draw the whole machine with the parts built by the end of a chapter filled in; each part links to its chapter.

    The links lead to notebooks, or on the site to its pages (tools/extensions/figure_links.py). A chapter that is not
    written yet has no link.

    Args:
        number: the chapter that has just ended, such as "04".

    Raises:
        ValueError: there is no such chapter.
    """
    now = chapter(number)
    built = [part for part in PARTS if part.chapter <= now.number]
    title = f"Your machine so far: {len(built)} of {len(PARTS)} parts"
    boxes = "".join(_boxes(part, part.chapter, _state(part.chapter, now)) for part in PARTS)
    return HTML(framed(_machine(now, boxes, _in_words(now, built)), title))


def machine_with_notes(notes: Sequence[tuple[str, str]], title: str) -> HTML:
    """Draw the whole machine with numbered notes at some of its parts, and list the notes below the drawing.

    The numbers take the place of the chapters' numbers. The parts still link to their chapters.

    Args:
        notes: for each note, the name of a part of `PARTS`, and a few words.
        title: the caption of the figure.

    Raises:
        ValueError: there is no such part, there are no notes, or there are more than nine.
    """
    if not 1 <= len(notes) <= len(_SIGNS):
        raise ValueError(f"notes has {len(notes)} entries: there must be from 1 to {len(_SIGNS)}")
    for name, _ in notes:
        checks.one_of("part", name, tuple(part.name for part in PARTS))
    at: dict[str, str] = {}
    for sign, (name, _) in zip(_SIGNS, notes, strict=False):
        at[name] = at.get(name, "") + sign
    boxes = "".join(
        _boxes(part, f'<tspan style="font-size: 16px">{at[part.name]}</tspan>', "built new")
        if part.name in at
        else _boxes(part, "", "built")
        for part in PARTS
    )
    listed = [f"{sign} {part}: {words}" for sign, (part, words) in zip(_SIGNS, notes, strict=False)]
    said = f"The whole machine. {_PATH} Notes: {'; '.join(listed)}."
    items = "".join(f"<li>{html.escape(one)}</li>" for one in listed)
    drawing = _machine(chapter(PARTS[-1].chapter), boxes, said)
    return HTML(framed(f'{drawing}<ul style="{_LIST}">{items}</ul>', title))


def _machine(now: Chapter, boxes: str, said: str) -> str:
    """Returns the drawing around the boxes as HTML, with `said` for readers who cannot see it."""
    drawing = "".join(
        [
            _frame(now),
            *(
                f'<path d="M{x} {y}V{end}" class="stream {_state("05", now)}"/>'
                for (x, y), (_, end) in _STREAM
            ),
            *(arrow(*points) for points in _FLOW),
            *(arrow(*points, kind="return") for points in _RETURNS),
            *(f'<circle cx="{x}" cy="{y}" r="11" class="plus"/>' for x, y in _PLUS),
            *(f'<path d="M{x - 6} {y}h12M{x} {y - 6}v12" class="flow"/>' for x, y in _PLUS),
            '<text x="184" y="32" class="text">A horse! a horse!</text>',
            boxes,
        ]
    )
    svg = f'<svg role="img" aria-label="{html.escape(said)}" viewBox="0 0 {WIDTH} {HEIGHT}">{drawing}</svg>'
    links = "".join(_links(part) for part in PARTS if chapter(part.chapter).written)
    return f'<div class="gf-machine">{_STYLE}{svg}{links}</div>'


def _in_words(now: Chapter, built: list[Part]) -> str:
    def listed(parts: list[Part]) -> str:
        return ", ".join(f"{part.name} (chapter {part.chapter})" for part in parts)

    left = [part for part in PARTS if part not in built]
    filled = f"Filled in by chapter {now.number}: {listed(built) or 'nothing yet'}."
    return f"The whole machine. {_PATH} {filled}" + (f" Still to come: {listed(left)}." if left else "")


def _state(number: str, now: Chapter) -> str:
    """Returns the classes in _STYLE for the chapter with this number."""
    return "open" if number > now.number else "built new" if number == now.number else "built"


def _frame(now: Chapter) -> str:
    [block] = [part for part in PARTS if part.name.startswith("block")]
    left, top, width, height = _FRAME
    colour = f' style="--part: {variable(block.role)}"' if block.chapter <= now.number else ""
    return (
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="10" '
        f'class="{_state(block.chapter, now)}"{colour}/>'
    )


def _boxes(part: Part, number: str, state: str) -> str:
    """Returns a part's boxes, each with its name on the left and a number on the right."""
    drawn = []
    for left, top, width, height in part.boxes:
        upright = height > width
        turn = " rotate(-90)" if upright else ""
        middle = f'transform="translate({left + width / 2} {top + height / 2}){turn}"'
        half = (height if upright else width) / 2
        colour = f' style="--part: {variable(part.role)}"' if "built" in state else ""
        drawn.append(
            f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="{min(8, height // 2)}" '
            f'class="box {state}"{colour}/>'
            f'<g {middle} class="{state}"><text x="{9 - half}" y="5" class="name">{part.name}</text>'
            f'<text x="{half - 8}" y="5" class="number">{number}</text></g>'
        )
    return "".join(drawn)


def _links(part: Part) -> str:
    """Makes a link for each box, laid over it, because JupyterLab does not open links inside an SVG."""
    to = chapter(part.chapter)
    label = html.escape(f"{part.name}: chapter {to.number}, {to.title}")
    return "".join(
        f'<a href="{to.name}.ipynb" aria-label="{label}" title="{label}" style="left: {100 * left / WIDTH:.2f}%; '
        f"top: {100 * top / HEIGHT:.2f}%; width: {100 * width / WIDTH:.2f}%; "
        f'height: {100 * height / HEIGHT:.2f}%"></a>'
        for left, top, width, height in part.boxes
    )


_STYLE = """<style>
.gf-machine { position: relative; max-width: 26rem; margin: 0 auto; font-family: system-ui, sans-serif; }
.gf-machine svg { display: block; width: 100%; height: auto; }
.gf-machine path, .gf-machine .plus { fill: none; stroke: currentColor; stroke-width: 1.4; }
.gf-machine .stream.open { opacity: .35; }
.gf-machine .stream { stroke: var(--gf-residual, #666); stroke-width: 6; }
.gf-machine .plus { stroke: var(--gf-residual, #666); stroke-width: 2; }
.gf-machine .return { stroke-dasharray: 3 3; opacity: .75; }
.gf-machine .head { fill: currentColor; stroke: none; }
.gf-machine rect { fill: none; stroke: currentColor; stroke-width: 1.2; stroke-dasharray: 4 3; }
.gf-machine rect.open { opacity: .6; }
.gf-machine rect.built { stroke: var(--part); stroke-width: 2; stroke-dasharray: none; }
.gf-machine .box.built { fill: var(--part); fill-opacity: .22; }
.gf-machine .box.new { stroke-width: 3.2; }
.gf-machine text { fill: currentColor; font-size: 14px; }
.gf-machine .name { font-weight: 500; }
.gf-machine .new .name { font-weight: 700; }
.gf-machine .open .name { opacity: .8; }
.gf-machine .number { font-size: 11px; text-anchor: end; opacity: .8; }
.gf-machine .text { font-family: ui-monospace, monospace; font-size: 13px; }
.gf-machine a { position: absolute; border-radius: 8px; }
.gf-machine a:hover { box-shadow: 0 0 0 2px currentColor; }
.gf-machine a:focus-visible { outline: 3px solid currentColor; outline-offset: 2px; }
</style>"""
_STYLE = " ".join(_STYLE.split())
