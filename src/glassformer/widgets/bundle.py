"""One widget's JavaScript as the single, self-contained module that a notebook can store.

The widgets are written as small ES modules that import from each other; a stored notebook has no folder to
import from. `bundle` puts the pieces into one file, for the few forms of import and export that we use.
"""

import json
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
ROLES: dict[str, dict[str, str]] = json.loads((HERE.parent / "assets" / "roles.json").read_text("utf-8"))
"""For each role its shade on a light page and on a dark one: Okabe and Ito's, made to stand out from both."""

# How JupyterLab and the page each say that they are dark.
DARK = 'html[data-theme="dark"] .gf-widget,\nbody[data-jp-theme-light="false"] .gf-widget'

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+)\.js";\n', re.MULTILINE)
DECLARATION = re.compile(r"^(export )?(?:async )?(?:function\*?|const|let|class) ([\w$]+)", re.MULTILINE)
UNSUPPORTED = {
    re.compile(r"^import\b.*", re.MULTILINE): 'only `import { name } from "./module.js";` can be bundled',
    re.compile(r"^(?:export )?(?:const|let) [\[{].*", re.MULTILINE): "declare one name per statement",
    re.compile(r"^(?:export )?var\b.*", re.MULTILINE): "use const or let",
    re.compile(r"^export (?:\*|\{).*", re.MULTILINE): "export where the name is declared",
}


@cache
def bundle(name: str, folder: Path = HERE) -> str:
    """The module `name`.js with everything it imports put before it, dependencies first and once each.

    Args:
        name: the module's file name without `.js`; its own exports are kept, those of its dependencies become
            plain declarations.
        folder: where the modules lie.

    Raises:
        ImportError: an import names what the other module does not export, two modules declare the same name,
            modules import each other in a circle, or a statement has a form that is not handled here.
    """
    bodies: dict[str, str] = {}  # in the order in which they must run
    declared: dict[str, str] = {}  # name -> the module that declares it
    exported: dict[str, set[str]] = {}

    def add(module: str, importers: tuple[str, ...]) -> None:
        if module in importers:
            raise ImportError(f"{' -> '.join((*importers, module))}: modules import each other in a circle")
        if module in bodies:
            return
        source = (folder / f"{module}.js").read_text(encoding="utf-8")
        for names, dependency in IMPORT.findall(source):
            add(dependency, (*importers, module))
            for wanted in filter(None, (n.strip() for n in names.split(","))):
                if wanted not in exported[dependency]:
                    raise ImportError(
                        f"{module}.js imports {wanted!r}, which {dependency}.js does not export"
                    )
        body = IMPORT.sub("", source).strip() + "\n"
        for form, rule in UNSUPPORTED.items():
            if found := form.search(body):
                raise ImportError(f"{module}.js: {found[0]!r}: {rule}")
        exported[module] = set()
        for export, declaration in DECLARATION.findall(body):
            if declaration in declared:
                raise ImportError(f"{module}.js and {declared[declaration]}.js both declare {declaration!r}")
            declared[declaration] = module
            if export:
                exported[module].add(declaration)
        if importers:
            if re.search(r"^export default\b", body, re.MULTILINE):
                raise ImportError(f"{module}.js has a default export, so {importers[-1]}.js cannot import it")
            body = re.sub(r"^export ", "", body, flags=re.MULTILINE)
        bodies[module] = body

    add(name, ())
    return "\n".join(f"// {module}.js\n{body}" for module, body in bodies.items())


def stylesheet(folder: Path = HERE) -> str:
    """The views' stylesheet: a variable --gf-ROLE for the colour of each role, in both themes, and kit.css."""

    def variables(theme: str) -> str:
        return "".join(f"  --gf-{role}: {shades[theme]};\n" for role, shades in ROLES.items())

    roles = f".gf-widget {{\n{variables('light')}}}\n\n{DARK} {{\n{variables('dark')}}}\n\n"
    return roles + (folder / "kit.css").read_text("utf-8")
