"""Puts views on a page of their own, where they run as on every page of the book: without a kernel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ipywidgets import embed

from glassformer.widgets.kit.view import View

HOST = Path(__file__).resolve().parents[2] / "book" / "site" / "widget-host.js"
PAGE = """<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8"><title>Views</title>
<style>{style}</style>
<script type="application/vnd.jupyter.widget-state+json">{state}</script>{views}<script>{host}</script></html>"""
PLACE = '<div><script type="application/vnd.jupyter.widget-view+json">{}</script></div>'


def page_of(views: Sequence[View], style: str) -> str:
    """Returns a page that holds some views, one below the other, and the script that draws those that are near."""
    data = embed.embed_data(views=views, state=embed.dependency_state(views, drop_defaults=False))
    return PAGE.format(
        style=style,
        state=json.dumps(data["manager_state"]).replace("</", "<\\/"),
        views="".join(PLACE.format(json.dumps(spec)) for spec in data["view_specs"]),
        host=HOST.read_text("utf-8"),
    )


# Evaluated on such a page, this draws all views, also those that are far below; the promise waits for them.
DRAW = """async () => {
  dispatchEvent(new Event("beforeprint"));
  while (document.querySelector(".widget-host[data-state=waiting]")) await new Promise(requestAnimationFrame);
  const failed = document.querySelectorAll(".widget-host[data-state=failed]").length;
  if (failed) throw new Error(`${failed} of the views did not start`);
}"""
