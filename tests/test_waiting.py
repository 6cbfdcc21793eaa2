"""Browser tests wait for what they assert: none reads right after it has acted, none sleeps, none is impatient."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FOLDERS = ("chapters", "lab", "site", "widgets")
FILES = [TESTS / "mounting.py"] + [path for name in FOLDERS for path in sorted((TESTS / name).rglob("*.py"))]

ACTS = {
    *("check", "clear", "click", "dblclick", "dispatch_event", "down", "drag_to", "emulate_media", "fill", "focus"),
    *("hover", "insert_text", "move", "press", "press_sequentially", "select_option", "set_checked"),
    *("set_viewport_size", "tap", "type", "uncheck", "up", "wheel"),
}  # fmt: skip
READS = {
    *("all_inner_texts", "all_text_contents", "bounding_box", "count", "evaluate_all", "get_attribute", "inner_html"),
    *("inner_text", "input_value", "is_checked", "is_disabled", "is_enabled", "is_hidden", "is_visible", "overflow"),
    "text_content",
}  # fmt: skip
WAITS = {
    *("beat", "expect", "expect_output", "get", "has_read", "label", "mount", "open_everything", "rest", "run"),
    *("saved", "says", "set", "settle", "table", "tables", "theme", "wait_for", "wait_for_function", "wait_for_url"),
    "wait_until_idle",
}  # fmt: skip


def steps(function, reading, waiting):
    """What a function does, in its order: (line, name). Calls of `reading` read the page, those of `waiting` wait."""
    found = []
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(attr="press"), args=[_, _, *_]):
                name = "settle"  # Mounted.press(label, *keys) does
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in reading | waiting:
                name = "settle" if name in waiting else "count"
            case ast.Call(func=ast.Attribute(attr=name)):
                pass
            case ast.Attribute(attr=("says" | "label") as name):
                pass
            case _:
                continue
        found.append((node.end_lineno, node.end_col_offset, name))
    return [(line, name) for line, _, name in sorted(found)]


def helpers(functions):
    """The names of the functions that read a page before they wait for anything, and of those that wait."""
    reading, waiting = set(), {"expect", "mount"}
    for each in functions:
        if each.name.startswith("test_"):
            continue
        names = [name for _, name in steps(each, reading, waiting)]
        first = next((name for name in names if name in READS | WAITS), None)
        if first in READS:
            reading.add(each.name)
        elif first in WAITS:
            waiting.add(each.name)
    return reading, waiting


def hasty(source):
    """Lines on which the page is read although nothing was waited for since it was acted on."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    reading, waiting = helpers(functions)
    found = []
    for function in functions:
        acted = False
        for line, name in steps(function, reading, waiting):
            if name in READS and acted:
                found.append(line)
            acted = name in ACTS or (acted and name not in WAITS)
    return found


def asleep(source):
    """Lines on which a test lets time pass, other than for a picture that people look at."""
    tree = ast.parse(source)
    pictures = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "shoot"]
    excused = {id(node) for picture in pictures for node in ast.walk(picture)}
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "wait_for_timeout" and id(node) not in excused
    ]


def impatient(source):
    """Lines that set a time limit of their own: how long a program may take is said in one place, `PATIENCE`."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        for each in (*node.keywords, node.func)
        if getattr(each, "attr", "") in ("set_default_timeout", "set_default_navigation_timeout")
        or (getattr(each, "arg", "") == "timeout" and not isinstance(each.value, ast.Name))
    ]


def test_no_test_has_a_time_limit_of_its_own():
    found = {path: impatient(path.read_text(encoding="utf-8")) for path in TESTS.rglob("*.py")}
    assert {path: lines for path, lines in found.items() if lines} == {}, (
        "leave the timeout out, or use PATIENCE"
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(TESTS).as_posix())
def test_nothing_is_read_before_it_is_waited_for(path):
    source = path.read_text(encoding="utf-8")
    assert hasty(source) == [], "use expect(), or settle() first"
    assert asleep(source) == [], "wait for a state, not for a while"


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("w.root.click()\n    assert w.root.inner_text() == 'a'", [3]),
        ("w.root.press('Enter')\n    text = 'a'\n    assert box.is_checked()", [4]),
        ("w.root.click()\n    w.settle()\n    assert box.is_checked()", []),
        ("w.root.click()\n    expect(box).to_be_checked()\n    assert box.count() == 1", []),
        ("w.press('Step', 'Home')\n    assert box.count() == 1", []),
        ("page.keyboard.press('Tab')\n    assert box.count() == 1", [3]),
        ("w.root.click()\n    assert w.says == 'a'\n    assert box.count() == 1", []),
    ],
)
def test_a_hasty_line_is_found(body, lines):
    assert hasty(f"def test(w):\n    {body}\n") == lines


def test_a_helper_that_reads_without_waiting_is_found():
    helper = "def boxes(w):\n    {}return w.root.all_inner_texts()\n\n"
    test = "def test(w):\n    w.root.click()\n    assert boxes(w) == ['a']\n"
    assert hasty(helper.format("") + test) == [6]
    assert hasty(helper.format("w.settle()\n    ") + test) == []


def test_a_sleep_is_found():
    assert asleep("page.wait_for_timeout(5)\n\ndef shoot():\n    page.wait_for_timeout(5)\n") == [1]


def test_a_time_limit_of_its_own_is_found():
    assert impatient("expect(box).to_be_checked(timeout=5_000)\nlock.acquire(timeout=60 * 2)") == [1, 2]
    assert impatient("page.set_default_timeout(5)\npage.set_default_navigation_timeout(5)") == [1, 2]
    assert impatient("process.join(timeout=PATIENCE)\nexpect(box).to_be_checked()") == []
