"""A Sphinx extension that writes the page of the package, book/api.md, from docstrings.

Sphinx's autodoc finds what a module offers (its ``__all__``), and napoleon reads the sections of a docstring. This
extension adds what is particular to ours. A docstring is Markdown, and so is that of a module, which the directive
``package`` puts above the module's names::

    ```{package} glassformer.text
    :exclude-members: LONGEST_WORD
    ```

In a signature, an array has its type and shape, ``Float['T D']``, for either library. A name in backticks leads to its
entry if the page has exactly one that fits, and a chapter that is mentioned to its page.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any, ClassVar, cast

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from numpy.typing import ArrayLike, DTypeLike
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.autodoc.preserve_defaults import update_defvalue
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import signature as signature_of
from sphinx.util.inspect import stringify_signature
from sphinx.util.nodes import make_refnode
from sphinx.util.typing import stringify_annotation

from glassformer import chapter_links, contents
from tools.shared.chapter_links import linked

# Those of lists, and those of words, in which a colon does not end a type
SECTIONS = Config(
    napoleon_custom_sections=[("Attributes", "params_style"), ("Traits", "params_style"), "Returns", "Yields"]
)
OF_AN_ARRAY = re.compile(r"\b(Bool|Float|Int|Int64|Integer|Real)\[(?:ndarray|Tensor), ")
# The signature of a class whose arguments another method than `__init__` passes on
ANYTHING = re.compile(r"\(\*args(?:: [~\w.]+)?, \*\*kwargs(?:: [~\w.]+)?\)")
# What is written shorter: what Sphinx makes of two names in annotations, and a default that is made anew
SHORTER = {
    stringify_annotation(ArrayLike, "smart"): "ArrayLike",
    stringify_annotation(DTypeLike, "smart"): "DTypeLike",
}
SHORTER["<factory>"] = "..."
TRAITS = re.compile(r"^Traits\b.*:$", re.MULTILINE)
INDENTED_CODE = re.compile(r"^(\S.*\n)\n(?=    \S)", re.MULTILINE)
CODE_WITHIN_A_WORD = re.compile(r"(?<=[^\s(\[{\"'*–/])(`[^`\n]+`)(?=[\s.,:;)]|$)|(`[^`\n]+`)(?=[\w(])")
DERIVED = re.compile(r"\s*Derived in\s+chapter\s+(\d\d)\.")
CHAPTER = re.compile(r"\[([^\[\]]+)\]\((/notebooks/[^)]+)\)")


class Package(SphinxDirective):
    """Shows a module: what its docstring says, and an entry for each of its names."""

    required_arguments = 1
    option_spec: ClassVar = {"members": directives.unchanged, "exclude-members": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Returns a box with what the page says about the module."""
        name = self.arguments[0]
        said = "" if "members" in self.options else inspect.getdoc(import_module(name))
        options = "".join(
            f"\n   :{each}: {names}" for each, names in ({"members": ""} | self.options).items()
        )
        markdown = linked(said or "", lambda chapter: f"../notebooks/{chapter.name}.ipynb")
        markdown += f"\n\n```{{eval-rst}}\n.. automodule:: {name}{options}\n```"
        box = nodes.container(classes=["api"])
        self.state.nested_parse(StringList(markdown.split("\n"), name), self.content_offset, box)
        return [box]


def short(
    app: Sphinx, what: str, name: str, it: Any, options: Any, signature: str | None, returns: str | None
) -> Any:
    """Returns a signature in which arrays have no library, and a class has the arguments of its `__init__`."""
    if signature and what == "class" and ANYTHING.fullmatch(signature):
        update_defvalue(app, it.__init__, bound_method=True)
        own = signature_of(it.__init__, bound_method=True)
        signature = stringify_signature(own, show_return_annotation=False, unqualified_typehints=True)
        if ANYTHING.fullmatch(signature):
            signature = "(**traits)" if ".widgets." in name else ""
    for long, other in SHORTER.items():
        signature = signature and signature.replace(long, other)
    return tuple(part and OF_AN_ARRAY.sub(r"\1[", part) for part in (signature, returns))


def _if_written(derived: re.Match[str]) -> str:
    """Returns in which chapter something is derived, or nothing if that chapter is still to come."""
    try:
        return derived[0] if contents.chapter(derived[1]).written else ""
    except ValueError:
        return ""


def read(app: Sphinx, what: str, name: str, it: Any, options: Any, lines: list[str]) -> None:
    """Turns the Markdown of a docstring into reStructuredText."""
    if what == "module":  # `Package` has shown it
        lines.clear()
        return
    text = TRAITS.sub("Traits:", "\n".join(lines)).replace("|", "\\|")
    text = INDENTED_CODE.sub(r"\1\n::\n\n", text)
    text = CODE_WITHIN_A_WORD.sub(lambda code: rf"\ {code[1]}" if code[1] else rf"{code[2]}\ ", text)
    text = DERIVED.sub(_if_written, text)
    text = chapter_links.linked(text, lambda chapter: f"/notebooks/{chapter.name}")
    text = CHAPTER.sub(r":doc:`\1 <\2>`", text)
    # The words of a property may have a colon, which napoleon would take for the end of its type
    kind = "method" if what in ("attribute", "property", "data") else what
    lines[:] = GoogleDocstring(text, cast("Any", SECTIONS), app, kind, name, it, options).lines()


def left_out(app: Sphinx, what: str, name: str, it: Any, skip: bool, options: Any) -> bool | None:
    """Leaves out the fields of a named tuple about which nothing is said."""
    return True if str(getattr(it, "__doc__", "")).startswith("Alias for field number") else None


def lead(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, words: nodes.TextElement
) -> nodes.Element | None:
    """Returns a link from a name to its entry, or only the name if no entry fits or several do."""
    if node.get("refdomain") != "py":
        return None
    sought, known = node["reftarget"].removesuffix("()"), env.domains["py"].data["objects"]
    module, of = f"{node.get('py:module')}.", f"{node.get('py:class')}."
    if "." in sought or sought[:1].isupper():
        fits = [name for name in known if f".{name}".endswith(f".{sought}")]
        if not fits and sought.startswith(
            "glassformer."
        ):  # a package above the one that defines it offers it
            room, last = ".".join(sought.split(".")[:2]), sought.rpartition(".")[2]
            fits = [name for name in (f"{room}.{last}",) if name in known]
        fits = [name for name in fits if name.startswith(module)] or fits
    else:  # as likely an argument, so only what is nearby
        fits = [name for name in (f"{module}{of}{sought}", f"{module}{sought}") if name in known][:1]
    if len(fits) != 1:
        return words
    entry = known[fits[0]]
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, words, fits[0])


def setup(app: Sphinx) -> dict:
    app.setup_extension("sphinx.ext.autodoc")
    app.add_directive("package", Package)
    app.connect("autodoc-process-docstring", read)
    app.connect("autodoc-process-signature", short)
    app.connect("autodoc-skip-member", left_out)
    app.connect("missing-reference", lead)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
