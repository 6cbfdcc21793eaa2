"""A Sphinx extension that says to others what the pages are: search engines, and those who show a link to one.

Every page has a description, which is its first paragraph. A published site, whose address tools/book.py derives from
that of the repository, also has a list of all pages, a card that is shown with a link, and a page for addresses that do
not exist. Sphinx adds the canonical address of each page. An address that a page once had leads to the page.
"""

from __future__ import annotations

import posixpath
import re
import textwrap
from html import escape
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from xml.sax.saxutils import escape as xml

import matplotlib
from docutils import nodes
from PIL import Image, ImageDraw, ImageFont
from sphinx.application import Sphinx

from tools.shared.moved_pages import MOVED

MOST = 160  # characters of a description
CARD = "_static/card.png"
SIZE = (1200, 630)  # pixels, as those who show cards recommend
PICTURE = Path(__file__).resolve().parents[2] / "book" / "site" / "glass-machine.png"
INK, MUTED, PAGE = "#1b2027", "#59636e", "#ffffff"
TITLE, SAYS = "Glassformer", "A Transformer you can see through: an interactive textbook"
UNKNOWN = "404"
LEADS_ON = "_static/moved.js"
ABOUT = re.compile(
    r'<title>.*?</title>|<meta (?:name="description"|name="twitter:|property="og:)[^>]*>|<link rel="canonical"[^>]*>',
    re.DOTALL,
)


DOOR = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{said}
<noscript><meta http-equiv="refresh" content="0; url={to}"></noscript>
</head>
<body><p><a href="{to}">Glassformer</a></p><script src="{script}"></script></body>
</html>
"""


def description(doctree: nodes.document) -> str:
    """Returns the first paragraph of a page that is a sentence, shortened between two words."""
    for paragraph in doctree.findall(nodes.paragraph):
        words = " ".join(paragraph.astext().split())
        if len(words) > 40 and isinstance(paragraph.parent, nodes.section):
            return textwrap.shorten(words, MOST, placeholder=" …")
    return SAYS


def describe(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Adds what a page says about itself to its head."""
    about = description(doctree) if doctree is not None else SAYS
    home = app.config.html_baseurl
    said = {"og:type": "website", "og:site_name": TITLE, "og:title": context.get("title") or TITLE}
    said |= {"og:description": about}
    if home:
        said |= {
            "og:url": urljoin(home, f"{page}.html"),
            "og:image": urljoin(home, CARD),
            "og:image:alt": SAYS,
        }
    tags = [f'<meta name="description" content="{escape(about)}">']
    tags += [
        f'<meta property="{name}" content="{escape(value, quote=True)}">' for name, value in said.items()
    ]
    if home:
        tags.append('<meta name="twitter:card" content="summary_large_image">')
    if page == UNKNOWN:
        tags.append('<meta name="robots" content="noindex">')
    context["metatags"] = context.get("metatags", "") + "\n".join(tags)


def unknown(app: Sphinx) -> list[tuple[str, dict, str]]:
    """Returns the page for addresses that do not exist."""
    return [(UNKNOWN, {"title": "There is no such page"}, f"{UNKNOWN}.html")]


def card() -> Image.Image:
    """Returns the picture for links: the title, and the upper half of the book's own picture."""
    image = Image.new("RGB", SIZE, PAGE)
    picture = Image.open(PICTURE).convert("RGB")
    width = SIZE[0] // 2 - 40
    picture = picture.resize((width, picture.height * width // picture.width)).crop(
        (0, 0, width, SIZE[1] - 60)
    )
    image.paste(picture, (SIZE[0] - width - 30, 30))
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    draw = ImageDraw.Draw(image)
    draw.text((60, 170), TITLE, INK, ImageFont.truetype(fonts / "DejaVuSans-Bold.ttf", 72))
    lines = "\n".join(textwrap.wrap(SAYS, 24))
    draw.multiline_text((60, 290), lines, MUTED, ImageFont.truetype(fonts / "DejaVuSans.ttf", 36), spacing=14)
    return image


def write(app: Sphinx, exception: Exception | None) -> None:
    """Writes what a published site has besides its pages, and lets the page for unknown addresses find its files."""
    home = app.config.html_baseurl
    if exception is not None or app.builder.format != "html" or not home:
        return
    site = Path(app.outdir)
    pages = sorted(f"{page}.html" for page in app.env.found_docs)
    entries = "".join(f"<url><loc>{xml(urljoin(home, page))}</loc></url>\n" for page in pages)
    (site / "sitemap.xml").write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{entries}</urlset>\n',
        encoding="utf-8",
    )
    (site / "robots.txt").write_text(
        f"User-agent: *\nAllow: /\nSitemap: {urljoin(home, 'sitemap.xml')}\n", encoding="utf-8"
    )
    card().save(site / CARD, optimize=True)
    lost = site / f"{UNKNOWN}.html"
    base = (
        f'<base href="{escape(urlsplit(home).path)}{UNKNOWN}.html">'  # it is sent for addresses in any folder
    )
    lost.write_text(lost.read_text("utf-8").replace("<head>", f"<head>\n{base}", 1), encoding="utf-8")


def doors(site: Path) -> None:
    """Lets the root, and the old address of each page that has moved, lead on, and say what the page says about itself.

    People have shared these addresses, and not everyone who shows a link to one follows where it leads.
    """
    first = (site / "index.html").read_text("utf-8").partition("url=")[2].partition(".html")[0]
    for old, new in ({"index": first} | MOVED).items():
        if not (site / f"{new}.html").exists():  # a small site has few pages
            continue
        said = ABOUT.findall((site / f"{new}.html").read_text("utf-8"))
        to, script = (posixpath.relpath(path, posixpath.dirname(old)) for path in (f"{new}.html", LEADS_ON))
        page = DOOR.format(said="\n".join(said), to=to, script=script)
        (site / f"{old}.html").write_text(page, encoding="utf-8")


def setup(app: Sphinx) -> dict:
    app.connect("html-collect-pages", unknown)
    app.connect("html-page-context", describe, priority=900)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
