"""Draws how sublayers are connected to the stream: in a row, on branches, and with norms in four places."""

import html
from dataclasses import dataclass

from IPython.display import HTML

from glassformer import _checks as checks
from glassformer.figures.style import arrow, framed

WIDTH, HEIGHT = 172, 356
_STREAM, _BRANCH = 26, 112  # where the stream and the branches run, from the left
_BOX, _ROW = 104, 26  # a box's width and height
_STEP = 40  # from one box to the next
_SECTION = 166  # the height of one sublayer with its norms
_TOP = 14


@dataclass(frozen=True)
class Way:
    """One way of connecting a sublayer f to the stream.

    Attributes:
        name: what it is called.
        rule: what one sublayer makes of the stream x.
        branch: what is on the branch, in order; "f" is the sublayer. Empty if there is no branch.
        stream: what is on the stream itself, in order.
    """

    name: str
    rule: str
    branch: tuple[str, ...] = ()
    stream: tuple[str, ...] = ()


WAYS = {
    "plain": Way("plain", "f(x)", stream=("f",)),
    "residual": Way("residual", "x + f(x)", branch=("f",)),
    "pre": Way("pre-norm", "x + f(norm(x))", branch=("norm", "f")),
    "post": Way("post-norm", "norm(x + f(x))", branch=("f",), stream=("norm",)),
    "after": Way("after the sublayer", "x + norm(f(x))", branch=("f", "norm")),
    "both": Way("on both sides", "x + norm(f(norm(x)))", branch=("norm", "f", "norm")),
}
"""The ways that `placements` can draw, by name."""


def placements(*ways: str, title: str) -> HTML:
    """Draw one block for each way of connecting its two sublayers to the stream, side by side.

    A block has attention and a feed-forward network. The drawings stand next to each other where the page is wide
    enough, and below each other where it is not.

    Args:
        *ways: names from `WAYS`: "plain", "residual", "pre", "post", "after" or "both".
        title: the caption of the figure.

    Raises:
        ValueError: `ways` is empty, or there is no such way.
    """
    if not ways:
        raise ValueError("ways=() is empty: name at least one way to draw")
    for way in ways:
        checks.one_of("way", way, tuple(WAYS))
    panels = "".join(_panel(WAYS[way]) for way in ways)
    return HTML(framed(f'<div class="gf-placements">{_STYLE}{panels}</div>', title))


def in_words(way: Way) -> str:
    """Returns what the drawing of a way shows, for readers who cannot see it."""
    names = {"f": "the sublayer", "norm": "a norm"}
    if not way.branch:
        return "Attention and the feed-forward network stand in a row. There is no stream around them."
    path = ", then ".join(names[each] for each in way.branch)
    after = " The stream itself then passes through a norm." if way.stream else ""
    return (
        "The stream runs straight through the block. For attention, and again for the feed-forward network, a branch "
        f"leaves it, passes {path}, and is added to the stream.{after}"
    )


def _panel(way: Way) -> str:
    end = _TOP + 2 * _SECTION + 4
    x, line, tip = (_STREAM, "stream", "end") if way.branch else (WIDTH // 2, "flow", "head")
    drawn, gaps = [], []
    for i, sublayer in enumerate(("attention", "feed-forward")):
        section, interrupted = _section(way, sublayer, _TOP + i * _SECTION)
        drawn += section
        gaps += interrupted
    ends = [_TOP - 10, *(y for gap in gaps for y in gap), end]
    drawn += [
        f'<path d="M{x} {y}V{to}" class="{line}"/>' for y, to in zip(ends[::2], ends[1::2], strict=True)
    ]
    drawn.append(f'<path d="M{x} {end + 6}l-7 -11h14z" class="{tip}"/>')
    label = html.escape(f"{way.name}: {way.rule}. {in_words(way)}")
    svg = f'<svg role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {HEIGHT}">{"".join(drawn)}</svg>'
    rule = html.escape(way.rule)
    return f'<div class="panel"><p class="name">{way.name}</p><p><code>{rule}</code></p>{svg}</div>'


def _section(way: Way, sublayer: str, top: int) -> tuple[list[str], list[tuple[int, int]]]:
    """Returns the drawing of one sublayer, its branch and its norms, and where they interrupt the stream's line."""
    half = _ROW // 2
    if not way.branch:
        y = top + _SECTION // 2
        return [_box(WIDTH // 2, y, sublayer)], [(y - half, y + half)]
    first = top + 24
    last = first + _STEP * (len(way.branch) - 1)
    plus = last + 30
    gaps = [(plus - 10, plus + 10)]
    drawn = [
        arrow((_STREAM, top + 2), (_BRANCH, top + 2), (_BRANCH, first - half - 1)),
        *(arrow((_BRANCH, y + half), (_BRANCH, y + _STEP - half - 1)) for y in range(first, last, _STEP)),
        arrow((_BRANCH, last + half), (_BRANCH, plus), (_STREAM + 12, plus)),
        f'<circle cx="{_STREAM}" cy="{plus}" r="10" class="plus"/>',
        f'<path d="M{_STREAM - 5} {plus}h10M{_STREAM} {plus - 5}v10" class="flow"/>',
        *(
            _box(_BRANCH, first + i * _STEP, sublayer if each == "f" else each)
            for i, each in enumerate(way.branch)
        ),
    ]
    if way.stream:
        y = plus + 36
        drawn.append(_box(_STREAM + 8, y, "norm", width=60))
        gaps.append((y - half, y + half))
    return drawn, gaps


def _box(x: int, y: int, name: str, width: int = _BOX) -> str:
    role = {"norm": "norm", "attention": "query", "feed-forward": "feedforward"}[name]
    return (
        f'<rect x="{x - width / 2:g}" y="{y - _ROW / 2:g}" width="{width}" height="{_ROW}" rx="7" '
        f'style="--part: var(--gf-{role})"/><text x="{x}" y="{y + 5}">{name}</text>'
    )


_STYLE = """<style>
.gf-placements { display: flex; flex-wrap: wrap; gap: 1em; justify-content: center;
  font-family: system-ui, sans-serif; }
.gf-placements .panel { flex: 0 1 9.6rem; min-width: 8.6rem; text-align: center; }
.gf-placements p { margin: 0 0 .3em; min-height: 1.4em; font-size: .8rem; }
.gf-placements .name { font-weight: 600; }
.gf-placements code { font-size: .72rem; white-space: nowrap; }
.gf-placements svg { display: block; width: 100%; height: auto; }
.gf-placements path, .gf-placements circle { fill: none; stroke: currentColor; stroke-width: 1.4; }
.gf-placements .stream { stroke: var(--gf-residual, #666); stroke-width: 6; }
.gf-placements .plus { stroke: var(--gf-residual, #666); stroke-width: 2; }
.gf-placements .head { fill: currentColor; stroke: none; }
.gf-placements .end { fill: var(--gf-residual, #666); stroke: none; }
.gf-placements rect { fill: var(--part); fill-opacity: .22; stroke: var(--part); stroke-width: 2; }
.gf-placements text { fill: currentColor; font-size: 13.5px; font-weight: 500; text-anchor: middle; }
</style>"""
_STYLE = " ".join(_STYLE.split())
