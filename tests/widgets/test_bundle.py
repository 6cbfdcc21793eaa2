"""The bundler: modules joined in the right order, and a clear error for everything that it cannot join."""

import re

import pytest

from glassformer import widgets
from glassformer.widgets.bundle import HERE, bundle, stylesheet


@pytest.fixture
def write(tmp_path):
    def write(**modules):
        for name, source in modules.items():
            (tmp_path / f"{name}.js").write_text(source, encoding="utf-8")
        return tmp_path

    return write


def test_a_dependency_comes_first_and_once_and_loses_its_exports(write):
    folder = write(
        low="export const one = 1;\nconst hidden = 2;\n",
        mid='import { one } from "./low.js";\nexport function two() { return one + one; }\n',
        main='import { one } from "./low.js";\nimport { two } from "./mid.js";\n'
        "export const three = () => one + two();\nexport default { render() {} };\n",
    )
    code = bundle("main", folder)
    assert code == (
        "// low.js\nconst one = 1;\nconst hidden = 2;\n\n"
        "// mid.js\nfunction two() { return one + one; }\n\n"
        "// main.js\nexport const three = () => one + two();\nexport default { render() {} };\n"
    )


def test_an_import_may_run_over_several_lines(write):
    folder = write(
        low="export const a = 1;\nexport const b = 2;\n",
        main='import {\n  a,\n  b,\n} from "./low.js";\na;\n',
    )
    assert bundle("main", folder) == "// low.js\nconst a = 1;\nconst b = 2;\n\n// main.js\na;\n"


BAD = {
    "two modules declare the same name": (
        {
            "low": "export const a = 1;\nconst x = 1;\n",
            "main": 'import { a } from "./low.js";\nfunction x() {}\n',
        },
        "main.js and low.js both declare 'x'",
    ),
    "an import that is not exported": (
        {"low": "const a = 1;\n", "main": 'import { a } from "./low.js";\n'},
        "main.js imports 'a', which low.js does not export",
    ),
    "a circle": (
        {
            "low": 'import { b } from "./main.js";\nexport const a = 1;\n',
            "main": 'import { a } from "./low.js";\n',
        },
        "main -> low -> main: modules import each other in a circle",
    ),
    "a renamed import": (
        {"low": "export const a = 1;\n", "main": 'import { a as b } from "./low.js";\n'},
        "main.js imports 'a as b', which low.js does not export",
    ),
    "an import of everything": (
        {"low": "export const a = 1;\n", "main": 'import * as low from "./low.js";\n'},
        r"""main.js: 'import * as low from "./low.js";': only""",
    ),
    "an import from a server": (
        {"main": 'import { a } from "https://example.org/a.js";\n'},
        """main.js: 'import { a } from "https://example.org/a.js";': only""",
    ),
    "several names in one statement": (
        {"main": "const [a, b] = [1, 2];\n"},
        "'const [a, b] = [1, 2];': declare one name",
    ),
    "an export list": (
        {"main": "const a = 1;\nexport { a };\n"},
        "'export { a };': export where the name is declared",
    ),
    "var": ({"main": "var a = 1;\n"}, "'var a = 1;': use const or let"),
    "a dependency with a default export": (
        {"low": "export const a = 1;\nexport default {};\n", "main": 'import { a } from "./low.js";\n'},
        "low.js has a default export, so main.js cannot import it",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_bundled_raises(write, case):
    modules, message = BAD[case]
    with pytest.raises(ImportError, match=re.escape(message)):
        bundle("main", write(**modules))


@pytest.mark.parametrize("name", sorted(path.stem for path in HERE.glob("*.js")))
def test_every_module_is_self_contained(name, browser):
    code = bundle(name)
    assert not re.search(r"^import\b", code, re.MULTILINE)
    assert not re.search(
        r"\bimport\(|\bfetch\(|https?://(?!www\.w3\.org/2000/svg\")|Math\.random|innerHTML", code
    )
    page = browser.new_page()
    load = """async (source) => {
        const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
        return "default" in (await import(url));
    }"""
    is_widget = page.evaluate(load, code)
    page.close()
    assert is_widget == (name not in {"kit", "maths"})


ONE_QUESTION = [
    {"text": "?", "options": [{"text": "a", "why": "b", "correct": True}, {"text": "c", "why": "d"}]}
]


@pytest.mark.parametrize("name", widgets.__all__)
def test_a_view_carries_its_module_and_the_stylesheet(name):
    cls = getattr(widgets, name)
    state = (cls(ONE_QUESTION) if name == "Quiz" else cls()).get_state()
    assert state["_esm"] == bundle(cls.__module__.rpartition(".")[2])
    assert state["_css"] == stylesheet()
