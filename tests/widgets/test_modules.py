"""Tests how a notebook stores the views' code and puts it together: each module once, in every environment."""

import json
import re
import subprocess
import sys

import ipywidgets
import pytest
import tinycss2

from glassformer import role_colours, widgets
from glassformer.widgets.kit import places
from glassformer.widgets.kit.modules import Module, needed, read, stylesheet
from tools.extensions.unused_css import selectors_of
from tools.freshness import without_comments
from tools.notebooks import ROOT, WIDGET_STATE, pairs

ONE_QUESTION = [
    {"text": "?", "options": [{"text": "a", "why": "b", "correct": True}, {"text": "c", "why": "d"}]}
]
ONE_PREDICTION = {"question": "?", "kind": "choice", "options": ["a", "b"], "answer": 1}
SCRIPTS = places.scripts()
VIEWS = [path.stem for path in SCRIPTS if path.with_suffix(".py").is_file() and path.parent.name != "engine"]
MODULES = sorted({module for view in VIEWS for module in needed(view)})


def make(name):
    cls = getattr(widgets, name)
    given = {"Quiz": [ONE_QUESTION], "Predict": [ONE_PREDICTION]}
    return cls(*given.get(name, []))


FOLDERS = {"low": "widgets/kit", "mid": "widgets/engine", "main": "chapters/ch04"}


@pytest.fixture
def write(tmp_path):
    def write(**modules):
        for name, source in modules.items():
            path = tmp_path / FOLDERS[name] / f"{name}.js"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
        return tmp_path

    return write


# --- which modules a view needs ---


def test_a_module_comes_after_those_it_imports_and_once(write):
    package = write(
        low="export const one = 1;\n",
        mid='import {\n  one,\n} from "../kit/low.js";\nexport const two = one + one;\n',
        main='import { two } from "../../widgets/engine/mid.js";\n'
        'import { one } from "../../widgets/kit/low.js";\nexport default one + two;\n',
    )
    assert needed("main", package) == ("low", "mid", "main")
    assert needed("low", package) == ("low",)


def test_a_module_that_is_imported_later_is_stored_too(write):
    package = write(
        low="export const one = 1;\n",
        main='export const load = () => import("../../widgets/kit/low.js");\n',
    )
    assert needed("main", package) == ("low", "main")


BAD = {
    "a circle": (
        {
            "low": 'import { b } from "../../chapters/ch04/main.js";\nexport const a = 1;\n',
            "main": 'import { a } from "../../widgets/kit/low.js";\nexport const b = 1;\n',
        },
        "main -> low -> main: modules import each other in a circle",
    ),
    "a module that is not there": (
        {"main": 'import { a } from "./low.js";\n'},
        "main.js imports from './low.js', which is no module of the package",
    ),
    "a server": (
        {"main": 'import { a } from "https://example.org/a.js";\n'},
        "main.js imports from 'https://example.org/a.js', which is no module of the package",
    ),
    "another folder": (
        {"low": "export const a = 1;\n", "main": 'import { a } from "../low.js";\n'},
        "main.js imports from '../low.js', which is no module of the package",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_stored_raises(write, case):
    modules, message = BAD[case]
    with pytest.raises(ImportError, match=re.escape(message)):
        needed("main", write(**modules))


def test_two_modules_of_one_name_raise(write):
    package = write(low="export const a = 1;\n", main='import { a } from "./low.js";\n')
    (package / "chapters" / "ch04" / "low.js").write_text("export const a = 2;\n", encoding="utf-8")
    with pytest.raises(ImportError, match="has the same name"):
        needed("main", package)


def test_every_file_is_of_use_and_has_a_name_of_its_own():
    own = [path for path in places.PACKAGE.rglob("*.js") if "vendor" not in path.parts]
    assert sorted(path.stem for path in own) == sorted({*MODULES, "loader"})
    assert {path.stem for path in places.PACKAGE.rglob("*.css")} <= set(MODULES)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_arrows_point_from_chapters_to_the_engine_to_the_kit(path):
    folder = path.parent.relative_to(places.PACKAGE).as_posix()
    below = ["widgets/kit", "widgets/engine", "widgets", folder]
    allowed = set(below[: below.index(folder) + 1])
    used = {places.find(f"{name}.js").parent for name in needed(path.stem)}
    assert {used_in.relative_to(places.PACKAGE).as_posix() for used_in in used} <= allowed


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_imports_nothing_of_another_chapter(name):
    path = places.find(f"{name}.py")
    named = set(re.findall(r"glassformer\.chapters\.(ch\d\d)", path.read_text("utf-8")))
    assert named <= {path.parent.name}


# --- how a view is found by its name ---


def test_a_view_is_imported_when_it_is_asked_for_and_no_folder_is_listed():
    program = """
import sys
import glassformer.widgets as widgets
views = [name for name in sys.modules if ".chapters." in name or name.endswith((".quiz", ".glass_machine"))]
assert not views, views
heard = []
sys.addaudithook(lambda event, details: heard.append((event, str(details[0]))))
from glassformer.widgets.kit import places
assert places.find("norm_comparer.py").parent.name == "ch05"
touched = [(event, path) for event, path in heard if event in ("open", "os.listdir", "os.scandir")]
assert not touched, touched
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_all_views_are_listed_and_nothing_else_is_found():
    assert len(widgets.__all__) == len(set(widgets.__all__)) == len(VIEWS)
    for name in widgets.__all__:
        assert getattr(widgets, name).__name__ == name
    for name in ("Model", "Judge", "NoSuchView", "norms"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(widgets, name)


@pytest.mark.parametrize("name", [*MODULES, "loader"])
def test_no_module_asks_for_anything_or_makes_markup_of_text(name):
    # The address of a namespace, of a document, and the beginning of the first line of a Git LFS pointer.
    address = r"https?://(?!www\.w3\.org/2000/svg\"|anywidget\.dev/en/afm/\)|git-lfs\")"
    assert not re.search(rf"\bfetch\(|{address}|Math\.random|innerHTML", read(name))
    # The loader imports what a notebook has stored, tokenizers.js a library that comes with the book, and
    # training_worker.js what trains.
    assert ("import(" in read(name)) == (name in ("loader", "tokenizers", "training_worker"))


# --- stylesheets; no linter for CSS comes with Python, so the browser judges them ---


def rules(css):
    """Returns (selectors, declarations) of every rule, including those within @media and @container."""
    plain = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    for selectors, body in re.findall(r"([^{};]+){([^{}]*)}", plain):
        if selectors.strip() == "@font-face":
            continue
        pairs = [declaration.split(":", 1) for declaration in body.split(";") if declaration.strip()]
        yield (
            [one for one, _ in selectors_of(tinycss2.parse_component_value_list(selectors))],
            [(name.strip(), value.removesuffix("!important").strip()) for name, value in pairs],
        )


# A font has descriptors instead of declarations, about which CSS.supports says nothing.
SHEETS = {name: list(rules(stylesheet(name))) for name in MODULES} | {
    "the page": list(rules((ROOT / "book" / "site" / "glassformer.css").read_text("utf-8")))
}


def test_the_browser_understands_every_line_of_a_stylesheet(page):
    rules = [rule for sheet in SHEETS.values() for rule in sheet]
    elsewhere = re.compile("-moz-|-webkit-details-marker")  # Firefox and Safari have them, Chromium not
    selectors = {part for parts, _ in rules for part in parts if not elsewhere.search(part)}
    understood = "list => list.filter((selector) => !CSS.supports(`selector(${selector})`))"
    assert page.evaluate(understood, sorted(selectors)) == []
    declarations = sorted({pair for _, pairs in rules for pair in pairs})
    understood = "list => list.filter(([name, value]) => !CSS.supports(name, value))"
    assert page.evaluate(understood, declarations) == []


def test_a_stylesheet_speaks_of_views_only():
    selectors = [part for name in MODULES for parts, _ in SHEETS[name] for part in parts]
    assert [selector for selector in selectors if ".gf-widget" not in selector] == []


# Without a value of its own, as in var(--gf-ink); with one, as in var(--gf-header, 0rem), it may be the page's.
VARIABLE = re.compile(r"var\((--[\w-]+)\)")


def test_every_variable_is_defined():
    views = [rule for name in MODULES for rule in SHEETS[name]]
    defined = {name for _, pairs in views for name, _ in pairs if name.startswith("--")}
    used = {name for _, pairs in views for _, value in pairs for name in VARIABLE.findall(value)}
    assert used <= defined


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_brings_every_variable_that_its_modules_name(name):
    """And says which: a name that is put together while the view runs would not bring its colour."""
    modules = {one: read(one) + stylesheet(one) for one in needed(name)}
    defined = {found for text in modules.values() for found in re.findall(r"(--[\w-]+)\s*:", text)}
    for one, text in modules.items():
        assert set(VARIABLE.findall(text)) <= defined, one
        assert "--gf-${" not in text, one


def test_a_module_brings_the_roles_that_it_names_and_no_other():
    for one in MODULES:
        brought = re.findall(r"^  --gf-(\w+): #", stylesheet(one), re.MULTILINE)
        brought = {role for role in brought if role in role_colours.SHADES}
        assert brought == {
            role for role in role_colours.SHADES if f"var(--gf-{role})" in read(one) + stylesheet(one)
        }, one
    assert "--gf-position: " in stylesheet("kit")
    assert "--gf-query: " not in stylesheet("kit")


def test_no_role_is_named_in_a_comment_alone():
    """A module would bring its colour, but freshness ignores comments: stored notebooks would not be made again."""
    for one in MODULES:
        sheet = places.find(f"{one}.css", places.PACKAGE)
        style = sheet.read_text("utf-8") if sheet else ""
        code = without_comments(read(one), "js") + without_comments(style, "css")
        assert role_colours.named_in(read(one) + style) == role_colours.named_in(code), one


def test_every_class_is_used():
    views = [rule for name in MODULES for rule in SHEETS[name]]
    written = " ".join(read(name) for name in MODULES)
    for name in {name for parts, _ in views for part in parts for name in re.findall(r"\.(gf-[\w-]+)", part)}:
        # Or put together of its first part and a role or a state: `gf-arrow-${role}`.
        assert name in written or f"{name.rpartition('-')[0]}-$" in written, name


def test_figures_and_views_share_no_class():
    # A figure's stylesheet applies to the whole page, so a view of the same class would be drawn like the figure.
    of_figures = set()
    for path in (ROOT / "src" / "glassformer" / "figures").rglob("*.py"):
        of_figures |= set(re.findall(r"\.(gf-[\w-]+)", path.read_text("utf-8")))
    rules_of_views = [part for name in MODULES for parts, _ in SHEETS[name] for part in parts]
    of_views = {name for part in rules_of_views for name in re.findall(r"\.(gf-[\w-]+)", part)}
    assert of_figures
    assert of_figures & of_views == set()


# --- what a notebook stores ---


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", widgets.__all__)
def test_a_view_refers_to_its_modules(name):
    view = make(name)
    state = view.get_state()
    modules = [module.get_state() for module in view._modules]
    own = type(view).__module__.rpartition(".")[2]
    assert state["_esm"] == read("loader")
    assert "_css" not in state
    assert state["_modules"] == [f"anywidget:{module.model_id}" for module in view._modules]
    assert [module["name"] for module in modules] == list(needed(own))
    for module in modules:
        assert module["source"] == read(module["name"])
        assert module["style"] == stylesheet(module["name"])


TRAIT_AT_MOST = 60_000  # characters of JSON


@pytest.mark.parametrize("name", widgets.__all__)
def test_no_trait_is_heavy(name):
    """In particular, no trait holds a model's weights: a view requests them, so notebooks stay small."""
    view = make(name)
    for part in (view, *view._modules):
        for trait, value in part.get_state().items():
            assert len(json.dumps(value)) <= TRAIT_AT_MOST, f"{type(part).__name__}.{trait}"


@pytest.mark.parametrize("path", [path for _, path in pairs() if path.exists()], ids=lambda path: path.stem)
def test_no_notebook_stores_anything_heavy(path):
    stored = json.loads(path.read_text("utf-8"))["metadata"].get("widgets", {})
    for model in stored.get(WIDGET_STATE, {}).get("state", {}).values():
        assert "buffers" not in model
        for trait, value in model["state"].items():
            assert trait == "questions" or len(json.dumps(value)) <= TRAIT_AT_MOST, trait


def test_two_views_share_their_modules():
    one, other, third = make("PositionHeatmap"), make("PositionHeatmap"), make("ClockHands")
    assert one._modules == other._modules
    assert one._modules[:2] == third._modules[:2] == Module.of("position_heatmap")[:2]


def test_modules_that_were_closed_are_opened_again():
    make("ClockHands")
    ipywidgets.Widget.close_all()
    after = make("ClockHands")._modules
    assert all(module.comm is not None for module in after)


# --- how a page puts it together ---


class Shouting(widgets.ClockHands, module="clock_hands"):
    """The clocks of another version of the book, open in the same JupyterLab, with different code and style."""

    def __init__(self):
        super().__init__()
        texts = {name: {"source": read(name), "style": stylesheet(name)} for name in needed("clock_hands")}
        texts["kit"]["style"] = stylesheet("kit").replace("font-weight: 650", "font-weight: 800")
        texts["clock_hands"]["source"] = read("clock_hands").replace("A row of clocks", "CLOCKS!")
        self._modules = [Module(name=name, **text) for name, text in texts.items()]


def test_two_versions_on_one_page_keep_to_themselves(mount):
    views = [mount(widget) for widget in (make("ClockHands"), Shouting(), make("ClockHands"))]
    titles = [view.root.locator(".gf-title") for view in views]
    assert [title.inner_text() for title in titles] == ["A row of clocks", "CLOCKS!", "A row of clocks"]
    weights = [title.evaluate("title => getComputedStyle(title).fontWeight") for title in titles]
    assert weights == ["650", "800", "650"]
    for view in views:
        view.press("Position p", "ArrowRight")
        assert view.says.startswith("At position 21")


def test_modules_of_two_versions_are_two_models():
    """So that a notebook can store both, and an older view does not get the code of a newer one."""
    ours, others = make("ClockHands")._modules, Shouting()._modules
    differ = {one.name for one, other in zip(ours, others, strict=True) if one.model_id != other.model_id}
    assert differ == {"kit", "clock_hands"}


def test_views_of_one_version_share_modules_and_stylesheet(mount):
    one, other = mount(make("ClockHands")), mount(make("PositionHeatmap"))
    again = mount(make("ClockHands"))
    memory = "globalThis[Symbol.for('glassformer.code')]"
    assert one.page.evaluate(f"{memory}.urls.size") == len(
        {*needed("clock_hands"), *needed("position_heatmap")}
    )
    scopes = [view.root.get_attribute("class") for view in (one, other, again)]
    assert scopes[0] == scopes[2] != scopes[1]
    assert one.page.evaluate("document.querySelectorAll('head style').length") == 1 + 2


@pytest.mark.parametrize("scheme", ["blob", "data"])
def test_a_module_may_import_another_once_it_needs_it(page, scheme):
    """Some browsers cannot import blobs from disk: a loader that came from a data: URL makes data: URLs."""
    found = page.evaluate(
        """async ([loader, scheme]) => {
          const address = scheme === "blob"
            ? URL.createObjectURL(new Blob([loader], { type: "text/javascript" }))
            : `data:text/javascript;charset=utf-8,${encodeURIComponent(loader)}`;
          const { link } = await import(address);
          const main = await link([
            { name: "late", source: `globalThis.isLate = "${scheme}"; export const two = 2;` },
            { name: "main", source: 'export const load = () => import("./late.js");' },
          ]);
          const before = globalThis.isLate === scheme;
          const { two } = await main.load();
          const urls = [...globalThis[Symbol.for("glassformer.code")].urls.values()];
          return [before, two, globalThis.isLate === scheme, urls.map((url) => url.slice(0, 4))];
        }""",
        [read("loader"), scheme],
    )
    assert found == [False, 2, True, [scheme] * 2]
