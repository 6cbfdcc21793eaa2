"""Defines one colour for each role (query, key, value, and so on), used in formulas, figures and widgets.

The colours are those of Okabe and Ito (2008), which colour-blind readers can tell apart, in two shades with a
contrast of at least 3:1 on a light and on a dark page. They are for marks; text has the page's own colour.
"""

import json
import re
from collections.abc import Iterable
from importlib import resources

_FILE = resources.files("glassformer") / "assets" / "roles.json"
SHADES: dict[str, dict[str, str]] = json.loads(_FILE.read_text(encoding="utf-8"))
"""The colour of each role on a light page and on a dark one: ``{"light": "#0072b2", "dark": "#3492de"}``."""

# Selectors for the dark theme in JupyterLab and on the site.
_DARK = ('html[data-theme="dark"]', 'body[data-jp-theme-light="false"]')


def named_in(text: str) -> list[str]:
    """Returns the roles whose variables occur in some HTML, CSS or JavaScript: query for ``var(--gf-query)``."""
    return [name for name in sorted(set(re.findall(r"--gf-(\w[\w-]*)", text))) if name in SHADES]


def variables(selector: str, roles: Iterable[str]) -> str:
    """Returns CSS that defines a variable for each role, such as --gf-query, on `selector`, in both themes."""
    roles = list(roles)
    dark = ",\n".join(f"{page} {selector}" for page in _DARK)
    return _block(selector, "light", roles) + _block(dark, "dark", roles) if roles else ""


def _block(selector: str, theme: str, roles: Iterable[str]) -> str:
    lines = (f"  --gf-{role}: {SHADES[role][theme]};\n" for role in roles)
    return f"{selector} {{\n{''.join(lines)}}}\n\n"
