"""Browser tests wait for a state: none sleeps, and how long a program may take is said in one place, `PATIENCE`."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent


def impatient(source):
    """Returns the lines that let time pass, other than for a picture that people look at, or set a time limit."""
    tree = ast.parse(source)
    pictures = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "shoot"]
    excused = {id(node) for picture in pictures for node in ast.walk(picture)}
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="wait_for_timeout") if id(node) not in excused:
                found.add(node.lineno)
            case ast.Attribute(attr="set_default_timeout" | "set_default_navigation_timeout"):
                found.add(node.lineno)
            case ast.keyword(arg="timeout", value=value) if not isinstance(value, ast.Name):
                found.add(node.lineno)
    return sorted(found)


def test_no_test_sleeps_or_has_a_time_limit_of_its_own():
    found = {path: impatient(path.read_text(encoding="utf-8")) for path in TESTS.rglob("*.py")}
    assert {path: lines for path, lines in found.items() if lines} == {}, (
        "wait for a state; leave the timeout out, or use PATIENCE"
    )


def test_a_sleep_and_a_time_limit_are_found():
    assert impatient("page.wait_for_timeout(5)\n\ndef shoot():\n    page.wait_for_timeout(5)\n") == [1]
    assert impatient("expect(box).to_be_checked(timeout=5_000)\nlock.acquire(timeout=60 * 2)") == [1, 2]
    assert impatient("page.set_default_timeout(5)\npage.set_default_navigation_timeout(5)") == [1, 2]
    assert impatient("process.join(timeout=PATIENCE)\nexpect(box).to_be_checked()") == []
