"""Defines one colour for each role (query, key, value, and so on), used in formulas, figures and widgets.

The colours are those of Okabe and Ito (2008), which colour-blind readers can tell apart, in two shades with a
contrast of at least 3:1 on a light and on a dark page. They are for marks; text has the page's own colour.
"""

import json
import re
from collections.abc import Iterable
from functools import cache
from importlib import resources

# Selectors for the dark theme in JupyterLab and on the site.
_DARK = ('html[data-theme="dark"]', 'body[data-jp-theme-light="false"]')


def names() -> tuple[str, ...]:
    """Returns the names of all roles."""
    return tuple(_shades())


def shades(role: str) -> dict[str, str]:
    """Returns the colour of a role on a light page and on a dark one: ``{"light": "#0072b2", "dark": "#3492de"}``.

    Raises:
        KeyError: there is no such role.
    """
    return dict(_shades()[role])


def drawn_in(colours: tuple[str, ...]) -> dict[str, str]:
    """Returns the colours that belong to a role on a light page, each with its role."""
    role_of = {one["light"]: role for role, one in _shades().items()}
    return {colour: role_of[colour] for colour in colours if colour in role_of}


def among(variables: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the variables that are the colour of a role."""
    return tuple(name for name in variables if name in _shades())


def named_in(text: str) -> tuple[str, ...]:
    """Returns the roles whose variables occur in some HTML, CSS or JavaScript: query for ``var(--gf-query)``."""
    return among(tuple(sorted(set(re.findall(r"--gf-(\w[\w-]*)", text)))))


def variables(selector: str, roles: Iterable[str]) -> str:
    """Returns CSS that defines a variable for each role, such as --gf-query, on `selector`, in both themes."""
    dark = ",\n".join(f"{page} {selector}" for page in _DARK)
    found = {role: shades(role) for role in roles}
    return _block(selector, "light", found) + _block(dark, "dark", found) if found else ""


def _block(selector: str, theme: str, found: dict[str, dict[str, str]]) -> str:
    lines = (f"  --gf-{role}: {each[theme]};\n" for role, each in found.items())
    return f"{selector} {{\n{''.join(lines)}}}\n\n"


@cache
def _shades() -> dict[str, dict[str, str]]:
    file = resources.files("glassformer") / "assets" / "roles.json"
    return json.loads(file.read_text(encoding="utf-8"))
