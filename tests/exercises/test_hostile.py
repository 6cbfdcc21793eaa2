"""Tests the engine with functions that do their worst: `check` returns each time, with a helpful message."""

import _thread
import functools
import inspect
import io
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import warnings
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from glassformer.exercises import check, commands, exercises, timelimit
from glassformer.exercises.attempt import RIGHT, WRONG, attempt
from glassformer.exercises.catalogue import find
from glassformer.exercises.exercise import Exercise, Prose
from glassformer.exercises.expect import expect
from glassformer.exercises.session import as_it_was

AMPLE = 60.0  # seconds; no test comes near this limit but by a clock that jumps


def double(x):
    """The reference of the exercise below."""
    return 2 * x


def exercise_of(*checks):
    prose = Prose("test.double", "04", "t", "s", 1, 1, why="w", hints=("a", "b", "c"), mistakes={})
    exercise = Exercise(prose, double)
    for number, function in enumerate(checks):
        exercise.check(f"check {number}")(function)
    return exercise


X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
DOUBLE = exercise_of(lambda f: expect(f(X), 2 * X, "f(x)", axes="T D"))


def judge(function, seconds=AMPLE, exercise=DOUBLE):
    return attempt(exercise, function, seconds)


def ended(threads):
    """Returns whether the threads with these numbers end."""
    for _ in range(500):
        if not set(threads) & set(sys._current_frames()):
            return True
        time.sleep(0.01)
    return False


def run(program):
    """Runs a program in a separate Python process, which must soon end with status 0."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=AMPLE,
    )
    assert done.returncode == 0, done.stderr


# What check returns


def test_a_right_function_comes_back(shown):
    def mine(x, table):
        if x.shape[-2] > len(table):
            raise ValueError(f"{x.shape[-2]} > {len(table)}")
        return x + table[: x.shape[-2]]

    assert check("positions.learned", mine) is mine
    assert shown[0].headline == "`positions.learned`: right, all 6 checks pass"


@pytest.mark.parametrize(
    "function", [lambda x, table: None, lambda x, table: x, lambda: 1, 7, None, "f", [len]]
)
def test_anything_else_is_replaced_by_the_reference(function, shown):
    reference = find("positions.learned").reference
    assert check("positions.learned", function) is reference
    assert len(shown) == 1


def test_checks_run_in_order_and_stop_at_the_first_that_fails(shown):
    check("positions.sinusoidal", lambda positions, d_model, base=1e4: np.zeros((len(positions), d_model)))
    check("positions.alibi_window", lambda slope: {1.0: 5}.get(slope, 0))
    check("positions.alibi_window", lambda slope: {1.0: 5, 0.5: 10, 1 / 256: 1179}.get(slope, 0))
    marks = ["".join(mark or "." for mark, _ in panel.lines) for panel in shown]
    assert marks == ["✓✗·.", "✓✗·.", "✓✓✗."]
    assert [panel.lines[2][1] for panel in shown[:2]] == ["6 more checks follow", "1 more check follows"]
    assert shown[0].headline == "`positions.sinusoidal`: not yet, 1 of 8 checks pass"
    assert shown[0].lines[1][1].endswith("should be [0, 1, 0, 1, 0, 1, 0, 1]; yours is all zeros.")


def test_a_fault_of_the_checker_itself_is_owned_and_survived(shown, monkeypatch):
    def broken(*args):
        raise LookupError

    monkeypatch.setattr(commands, "attempt", broken)
    assert check("positions.learned", len) is not len
    assert "That is our mistake" in shown[0].headline


# Not attempted


@pytest.mark.parametrize("nothing", [None, Ellipsis, NotImplemented, NotImplementedError()])
def test_a_stub_is_not_attempted(nothing, shown, progress_file):
    def stub(*args):
        if isinstance(nothing, Exception):
            raise nothing
        return nothing

    check("positions.learned", stub)
    assert "not attempted yet" in shown[0].headline
    assert ("its `return` is missing" in repr(shown[0])) == (not isinstance(nothing, Exception))
    assert not progress_file.exists()


class NoKeyboardError(NotImplementedError):
    """What a notebook without a keyboard raises from `input()`."""


@pytest.mark.parametrize("error", [NoKeyboardError, NotImplementedError])
def test_what_something_else_or_a_later_call_leaves_out_is_an_attempt(error):
    def half_done(x):
        if x.sum() > 0 and error is NotImplementedError:
            return x
        raise error("negative")

    outcome = judge(half_done, exercise=exercise_of(lambda f: f(X), lambda f: f(-X)))
    assert outcome.status == WRONG
    assert f"{error.__name__}: negative" in outcome.message
    outcome = judge(
        lambda x: x if x.sum() > 0 else None, exercise=exercise_of(lambda f: f(X), lambda f: f(-X))
    )
    assert (outcome.status, outcome.passed) == (WRONG, 1)
    assert "does every path end in `return`?" in outcome.message


# Exceptions


def test_an_exception_is_its_last_line_its_notes_and_the_learners_own_line():
    def mine(x):
        try:
            return np.stack([])  # raised by Python code inside NumPy
        except ValueError as error:
            error.add_note("and a note")
            raise

    def long(x):
        raise ValueError("no " * 10_000_000)

    line = mine.__code__.co_firstlineno + 2
    assert judge(mine).message == (
        "your function raised ValueError: need at least one array to stack · and a note "
        f"(line {line}: `return np.stack([])  # raised by Python code inside NumPy`)"
    )
    assert len(judge(long).message) < 500
    assert "missing 1 required positional argument" in judge(lambda x, y: x).message
    of_a_check = judge(double, exercise=exercise_of(lambda f: f(X)[5])).message
    assert of_a_check.startswith("what your function returned could not be checked: IndexError")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), BaseException("b")])
def test_what_ends_programs_does_not_end_the_notebook(error):
    def mine(x):
        raise error

    outcome = judge(mine)
    assert outcome.status == WRONG
    assert f"raised {type(error).__name__}" in outcome.message


def test_recursion_without_end_is_an_error_and_its_limit_is_put_back():
    was = sys.getrecursionlimit()

    def mine(x):
        sys.setrecursionlimit(was + 1)
        return mine(x)

    outcome = judge(mine)
    assert "raised RecursionError" in outcome.message
    assert outcome.aside == ["Your function changed the recursion limit; it has been restored."]
    assert sys.getrecursionlimit() == was


def test_of_an_error_that_comes_from_others_only_the_last_is_looked_at():
    errors = [ValueError(i) for i in range(100)]  # 100,000 would take longer than the time limit

    def mine(x):
        for one, cause in zip(errors[1:], errors, strict=False):
            one.__cause__ = cause
        raise errors[-1]

    assert "raised ValueError: 99" in judge(mine).message
    assert errors[-1].__cause__ is None


# Time


def loop(threads):
    threads.append(_thread.get_ident())
    while True:
        pass


def loop_that_swallows(threads):
    threads.append(_thread.get_ident())
    while True:
        try:
            threads[0] += 0
        except:  # noqa: E722
            continue


def loop_in_a_finally(threads):
    threads.append(_thread.get_ident())
    try:
        loop(threads)
    finally:
        loop(threads)


@pytest.fixture
def time_is_up_once(monkeypatch):
    """Provides a clock that jumps past every limit as soon as a list is filled, so no test waits for a real limit."""

    def once(filled):
        def monotonic():
            return time.monotonic() + (2 * AMPLE if filled else 0)

        monkeypatch.setattr(timelimit, "time", SimpleNamespace(monotonic=monotonic, sleep=time.sleep))

    return once


@pytest.mark.parametrize("endless", [loop, loop_that_swallows, loop_in_a_finally])
def test_an_endless_loop_is_stopped(endless, time_is_up_once, monkeypatch, capfd):
    monkeypatch.setattr(timelimit, "GRACE", AMPLE)
    threads = []
    time_is_up_once(threads)
    outcome = judge(lambda x: endless(threads))
    assert outcome.status == WRONG
    assert "still running after 60 s and was stopped. Is there a loop" in outcome.message
    assert ended(threads)
    assert capfd.readouterr() == ("", "")


def test_a_call_that_cannot_be_stopped_is_left_behind(time_is_up_once, monkeypatch):
    monkeypatch.setattr(timelimit, "GRACE", 0.2)
    over = _thread.allocate_lock()
    over.acquire()
    threads = []
    time_is_up_once(threads)

    def mine(x):
        threads.append(_thread.get_ident())
        over.acquire()  # in compiled code, deaf to exceptions, until the end of this test

    try:
        assert "could not be stopped" in judge(mine).message
        assert set(threads) & set(sys._current_frames())
        monkeypatch.undo()
        assert judge(double).status == RIGHT  # the next check is none the worse
    finally:
        over.release()
    assert ended(threads)


def test_the_limit_is_for_all_checks_and_what_passed_before_counts(time_is_up_once):
    threads = []
    time_is_up_once(threads)

    def slow_third(x):
        if x.sum() < 0:
            loop(threads)
        return x

    outcome = judge(slow_third, exercise=exercise_of(lambda f: f(X), lambda f: f(X), lambda f: f(-X)))
    assert (outcome.status, outcome.passed) == (WRONG, 2)


def test_the_users_own_interrupt_is_not_an_error(shown):
    threads = []

    def mine(x, table):
        loop(threads)

    def press():
        while not threads:
            time.sleep(0.01)
        _thread.interrupt_main()

    # A test run started in the background of a shell ignores interrupts; a notebook's kernel does not.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=press, daemon=True).start()
        assert check("positions.learned", mine, seconds=AMPLE) is not mine
    finally:
        signal.signal(signal.SIGINT, before)
    assert "the check was interrupted" in shown[0].headline
    assert ended(threads)


def test_an_import_is_not_cut_in_two_and_takes_none_of_the_time(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "library_that_takes_long.py").write_text(
        "import time\nfor _ in range(60):\n    time.sleep(0.01)\ndef double(x):\n    return 2 * x\n"
    )

    def mine(x):
        import library_that_takes_long

        return library_that_takes_long.double(x)

    assert judge(mine, seconds=0.2).status == RIGHT

    (tmp_path / "library_without_end.py").write_text("while True:\n    pass\n")

    threads = []

    def never(x):
        threads.append(_thread.get_ident())
        import library_without_end

        return library_without_end

    monkeypatch.setattr(timelimit, "IMPORTS", 0.2)
    monkeypatch.setattr(timelimit, "GRACE", 0.2)
    message = judge(never, seconds=0.1).message
    assert "could not be stopped, so it is still running" in message
    assert "your progress is saved" in message
    assert "library_without_end" in sys.modules
    monkeypatch.setattr(timelimit, "GRACE", AMPLE)
    monkeypatch.setattr(timelimit, "_importing", lambda thread: False)
    assert timelimit._stop(threads[0])  # for good


def test_who_ends_before_what_was_sent_arrives_leaves_python_as_it_was():
    """A thread in C ends without executing another Python instruction; then a debugger starts tracing."""
    run(
        """
        import _thread, sys, threading
        from glassformer.exercises import timelimit

        timelimit.GRACE = 60.0
        over = _thread.allocate_lock()
        over.acquire()
        deaf = _thread.start_new_thread(over.acquire, ())
        threading.Timer(0.2, over.release).start()
        assert timelimit._stop(deaf)
        sys.settrace(lambda *event: None)
        (lambda: None)()  # has not begun where Python still looks for the exception
        """
    )


def test_the_threads_stack_size_is_put_back():
    before = threading.stack_size(2**20)
    try:
        judge(double)
        assert threading.stack_size() == 2**20
    finally:
        threading.stack_size(before)


# Arguments


def test_a_changed_argument_is_told_under_its_own_words(shown):
    def add_learned(x, table):
        x += table[: x.shape[-2]]
        return x

    check("positions.learned", add_learned)
    assert shown[0].lines[0][1].startswith("the arguments stay unchanged: your function changed")
    assert shown[0].lines[1][1] == f"{len(find('positions.learned').checks)} more checks follow"


RAGGED = np.array([[1], [2, 3]], dtype=object)


@pytest.mark.parametrize(
    ("names", "write"),
    [
        (np.array([np.nan, 1.0]), lambda names: names.fill(1)),
        (np.arange(6.0), lambda names: setattr(names, "shape", (3, 2))),
        (["a"], lambda names: names.append("more")),
        ([["a"], np.nan], lambda names: names[0].append("more")),
        ([np.arange(2.0)], lambda names: names[0].fill(1)),
        ([np.arange(2.0)], lambda names: names.__setitem__(0, "no array any more")),
        ({"a": 1}, lambda names: names.update(b=names.pop("a"))),
        ([{2}], lambda names: names[0].add(3)),
        ([RAGGED], lambda names: names[0][1].append(3)),
    ],
)
def test_a_changed_argument_is_named(names, write):
    exercise = exercise_of(lambda f: f(X, names=names))

    def mine(x, names):
        write(names)
        return 2 * x

    assert judge(mine, exercise=exercise).message == (
        "your function changed its argument `names` in place. Work on a copy."
    )
    assert judge(lambda x, names: 2 * x, exercise=exercise).status == RIGHT


def test_each_call_gets_fresh_copies():
    seen = []

    def mine(x):
        seen.append(x)
        x_before = x.copy()
        x[:] = np.nan
        return 2 * x_before

    assert "in place" in judge(mine).message
    assert not np.isnan(X).any()
    assert judge(double).status == RIGHT
    assert seen[0] is not X


def test_functions_of_many_kinds_are_called():
    class Doubler:
        def __call__(self, x):
            return 2 * x

        def method(self, x):
            return 2 * x

    for mine in (
        Doubler(),
        Doubler().method,
        functools.partial(np.multiply, 2),
        functools.wraps(len)(double),
    ):
        assert judge(mine).status == RIGHT
    smallest = exercise_of(lambda f: expect(f([3.0, 1.0]), 1.0, "the smallest"))
    assert judge(min, exercise=smallest).status == RIGHT  # `min` has no signature to ask for


# Results


def enormous():
    return np.broadcast_to(np.float64(0), (10**6, 10**6))  # 8 terabytes, were it copied


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (
            [[2, 4, 6], [8, 10, 13]],
            "f(x) should be [[2, 4, 6], [8, 10, 12]]; yours is [[2, 4, 6], [8, 10, 13]].",
        ),
        ([[2, 4, 6], [8, 10]], "is a list whose rows differ in length"),
        ([["2", "4"]], "f(x) should be an array; yours is a list, [['2', '4']]"),
        ((2, 4), "should have shape (T, D) = (2, 3); yours has shape (2,)"),
        ("abc", "yours is a str, 'abc'"),
        ({"a": 1}, "yours is a dict"),
        (len, "yours is a function ('len')"),
        (np.zeros((3, 2)), "yours has shape (3, 2). It looks transposed."),
        (np.zeros((2, 3)), "f(x) should be [[2, 4, 6], [8, 10, 12]]; yours is all zeros."),
        (X.astype(object), "dtype object. It is an array of Python objects"),
        (2j * X, "If you compute with complex numbers, take .real"),
        (X.astype(str), "It should hold numbers"),
        (X.astype(np.float16), "float16, which is too coarse"),
        (torch.tensor(X, dtype=torch.float16), "too coarse"),
        (
            np.array([[2, 4, np.nan], [np.inf, 1, 1]]),
            "is nan at [t=0, d=2], which is not a finite number",
        ),
        (X.astype(int), "Your numbers are int64, which cuts off the fractions"),
        (
            torch.empty(2, 3, device="meta"),
            "f(x) is a tensor on the meta device, which stores a shape but no numbers",
        ),
        (enormous(), "f(x) should have shape (T, D) = (2, 3); yours has shape (1000000, 1000000)."),
        ("x" * 10**7, "yours is a str, 'xxx"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:20],
)
def test_wrong_results_are_told_what_they_are(result, says):
    outcome = judge(lambda x: result)
    assert outcome.status == WRONG
    assert says in outcome.message
    assert len(outcome.message) < 200


def test_generators_and_coroutines_are_told():
    async def coroutine(x):
        return x

    def generator(x):
        yield x

    started = []
    assert "is there a `yield`" in judge(generator).message
    assert "write `def`" in judge(lambda x: started.append(coroutine(x)) or started[0]).message
    assert inspect.getcoroutinestate(started[0]) == inspect.CORO_CLOSED  # no warning that nobody awaited it


def test_a_check_meets_numpy_arrays_where_the_learner_returns_tensors():
    def negated(f):
        one, two = f(X)
        expect(-one, -2 * X, "minus the first")
        expect(np.linalg.norm(two), 1.0, "the length of the second")

    exercise = exercise_of(lambda f: expect(np.negative(f(X)[0]), -2 * X, "it"), negated)
    parts = torch.tensor(2 * X, requires_grad=True), torch.ones(1, requires_grad=True)
    assert judge(lambda x: parts, exercise=exercise).message == ""


class Hostile:
    def __repr__(self):
        raise RuntimeError("no repr")

    def __array__(self, *args, **kwargs):
        raise RuntimeError("no array")

    def __eq__(self, other):
        raise RuntimeError("no comparison")

    def __len__(self):
        raise RuntimeError("no length")


ODD = [
    None, ..., True, 0, 10**400, float("nan"), 1j, "", b"", [], (), {}, [[]], [None] * 10**5, Hostile(), Hostile,
    len, iter([]), (None, None), ([], {}), np.zeros(0), np.array(1.0), np.full((2, 2), np.nan), np.array(["a"]),
    np.array([object()]), np.zeros(2, "datetime64[s]"), np.zeros(2, [("a", int)]), enormous(), torch.zeros(0),
    torch.zeros(2, dtype=torch.complex64), torch.zeros(2, 2).to_sparse(), torch.empty(3, device="meta"),
]  # fmt: skip


# All of them at every kind of check, two at each exercise.
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("exercise", "results"),
    [pytest.param(exercise, ODD[i % 16 :: 16], id=exercise.name) for i, exercise in enumerate(exercises())],
)
def test_no_exercise_raises_whatever_is_returned(exercise, results, shown):
    for result in results:
        assert (
            check(exercise.name, lambda *args, result=result, **kwargs: result, seconds=AMPLE)
            is exercise.reference
        )
    assert len(shown) == len(results)
    for panel, result in zip(shown, results, strict=True):
        assert len(repr(panel)) < 3000
        assert "our mistake" not in panel.headline, type(result)
        assert panel._repr_html_()


# Side effects


def change_everything(x):
    """Changes what a function may change by accident, and what is restored afterwards."""
    np.random.seed(0)
    random.seed(0)
    torch.manual_seed(0)
    np.random.seed = 0
    np.sin = torch.exp = np.cos
    torch.set_default_dtype(torch.float64)
    warnings.simplefilter("ignore")
    os.chdir(tempfile.gettempdir())
    os.environ["ODD"] = "1"
    os.environ.pop("HOME", None)
    sys.stdout = io.StringIO()
    sys.path.append("odd")
    np.seterr(all="raise")
    np.set_printoptions(precision=1)


def session():
    return (
        np.random.get_state()[1].tolist(), random.getstate(), torch.random.get_rng_state().tolist(),
        np.sin, np.random.seed, torch.exp, torch.get_default_dtype(), list(warnings.filters), os.getcwd(),
        dict(os.environ), sys.stdout, list(sys.path), np.geterr(), np.get_printoptions(),
    )  # fmt: skip


def test_the_session_is_as_it_was_and_a_wrong_function_is_told_what_it_changed():
    before = session()

    def wrong(x):
        change_everything(x)
        return 3 * x

    def right(x):
        change_everything(x)
        return 2 * torch.tensor(x)

    outcome = judge(wrong)
    assert session() == before
    assert outcome.status == WRONG
    assert outcome.aside == [
        "Your function changed `np.sin`, `np.random.seed`, `torch.exp`, the working directory, …; "
        "they have been restored."
    ]
    outcome = judge(right)
    assert session() == before
    assert (outcome.status, list(outcome.aside)) == (RIGHT, [])


def test_the_session_is_as_it_was_after_an_endless_loop(time_is_up_once):
    threads, before = [], np.sin
    time_is_up_once(threads)

    def mine(x):
        np.sin = np.cos
        loop(threads)

    assert judge(mine).aside == ["Your function changed `np.sin`; it has been restored."]
    assert np.sin is before


def test_a_function_of_numpy_that_the_notebook_replaced_is_told(monkeypatch, shown):
    monkeypatch.setattr(np, "multiply", np.add)
    monkeypatch.setattr(math, "pi", 3)
    outcome = judge(lambda x: np.multiply(x, 2))
    assert outcome.aside == [
        "In this notebook, `np.multiply`, `math.pi` have been replaced. Restart the kernel to get the originals back."
    ]
    assert judge(double).aside == []
    check("positions.alibi_window", lambda slope: 1)
    assert "`math.pi`" in shown[0].lines[1][1]


def test_the_first_to_import_torch_leaves_its_default_dtype(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    with as_it_was() as changed:
        sys.modules["torch"] = torch
        os.environ["SET_BY_TORCH"] = "1"  # as some imports do, and no learner
        torch.set_default_dtype(torch.float64)
    assert torch.get_default_dtype() == torch.float32
    assert changed == ["the default dtype of torch"]


@pytest.mark.parametrize("seconds", [None, True, 0, float("nan"), [5]])
def test_a_limit_that_is_none_is_told_so(seconds, shown, progress_file):
    assert (
        check("positions.learned", lambda x, table: 1, seconds=seconds) is find("positions.learned").reference
    )
    assert "`seconds` should be a number above 0, got" in shown[0].headline
    assert not progress_file.exists()


@pytest.mark.parametrize("seconds", [60, np.float32(60), Fraction(60), float("inf")])
def test_a_limit_may_be_any_number(seconds, shown):
    reference = find("positions.alibi_slopes").reference
    check("positions.alibi_slopes", reference, seconds=seconds)
    assert "right, all" in shown[0].headline
