"""One colour for each role, in formulas, figures and widgets alike: query, key, value, and so on.

From the set of Okabe and Ito (2008), which colour-blind readers can tell apart, in two shades: at least 3:1 on a
light page and on a dark one. They are for marks; words are in the page's own ink.
"""

import json
from importlib import resources

SHADES: dict[str, dict[str, str]] = json.loads(
    (resources.files("glassformer") / "assets" / "roles.json").read_text(encoding="utf-8")
)
"""For each role its shade on a light page and on a dark one."""

# How JupyterLab and the page each say that they are dark.
_DARK = ('html[data-theme="dark"]', 'body[data-jp-theme-light="false"]')


def variables(selector: str) -> str:
    """CSS that gives what `selector` selects a variable for each role, --gf-query and so on, in either theme."""
    dark = ",\n".join(f"{page} {selector}" for page in _DARK)
    return _block(selector, "light") + _block(dark, "dark")


def _block(selector: str, theme: str) -> str:
    lines = (f"  --gf-{role}: {shades[theme]};\n" for role, shades in SHADES.items())
    return f"{selector} {{\n{''.join(lines)}}}\n\n"
