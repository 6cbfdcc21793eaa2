"""Tests what an update makes of a reader's copy, in small repositories and with small notebooks."""

import hashlib
import json
import subprocess

import pytest

from tools import update

PRACTICE, RENAMED = "notebooks/exercises/03-attention.ipynb", "notebooks/exercises/03-practice.ipynb"
CHAPTER = "notebooks/03-attention.ipynb"
STUB = 'def scores(q, k):\n    ...\n\n\nscores = check("attention.scores", scores)'
SECOND = 'def softmax(x):\n    ...\n\n\nsoftmax = check("attention.softmax", softmax)'
ANSWER = STUB.replace("...", "return q @ k.T")
VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"


def cell(source, output="", **more):
    """Returns a cell as the book stores it: its id follows from its source, and text begins with a #."""
    kind = "markdown" if source.startswith("#") else "code"
    made = {"cell_type": kind, "id": hashlib.sha256(source.encode()).hexdigest()[:8], "metadata": {}}
    made["source"] = source.splitlines(keepends=True)
    if kind == "code":
        outputs = [{"output_type": "stream", "name": "stdout", "text": [output]}] if output else []
        made |= {"execution_count": 1, "outputs": outputs}
    return made | more


def notebook(*cells, states=None):
    """Returns a notebook that records, as the book's do, which cells it was made from."""
    cells = [cell(this) if isinstance(this, str) else this for this in cells]
    made_from = hashlib.sha256(
        "".join(update.source(this)[1] for this in cells).encode("utf-8", "replace")
    ).hexdigest()
    metadata = {"glassformer": {"cells": made_from}}
    if states:
        metadata["widgets"] = {STATE: {"state": states, "version_major": 2, "version_minor": 0}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def written(book):
    return (json.dumps(book, indent=1) + "\n").encode()


def sources(content):
    return [update.source(this)[1] for this in json.loads(content)["cells"]]


def answered(book, **more):
    """Returns a notebook in which the reader has answered `STUB` and run everything."""
    book = json.loads(json.dumps(book))
    for this in book["cells"]:
        if update.source(this)[1] == STUB:
            this |= {"source": ANSWER.splitlines(keepends=True), **more}
        if this["cell_type"] == "code":
            this["execution_count"] = 41
            this["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["mine"]}]
    return book


class Repository:
    def __init__(self, root):
        self.root = root
        self.jupyter = []  # what was asked of it

    def git(self, *arguments):
        done = subprocess.run(["git", *arguments], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def write(self, path, content):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else written(content))

    def commit(self, files):
        for path, content in files.items():
            if content is None:
                self.git("rm", "--quiet", path)
            else:
                self.write(path, content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", "a version")
        return self.git("rev-parse", "HEAD")

    def read(self, path):
        return (self.root / path).read_bytes()

    def files(self):
        """Returns everything in the folder but git's own files and the backups' time."""
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file() and {".git", "backups"}.isdisjoint(path.relative_to(self.root).parts)
        }


BOOK = {
    PRACTICE: notebook("# Practice", STUB, "# Two", SECOND, "# End"),
    CHAPTER: notebook("# Attention", cell("print(1)", "1")),
    "README.md": b"one\ntwo\nthree\nfour\nfive\n",
    "notebooks/old.ipynb": notebook("# Old", cell("print(2)", "2")),
    "src/old.py": b"x = 1\n",
    ".gitignore": b"my_transformer.py\n",
}
NEWER = {
    PRACTICE: None,
    RENAMED: notebook("# Practice of attention", STUB, "# New", "# Two", SECOND, "# End"),
    CHAPTER: notebook("# Attention!", cell("print(1)", "1")),
    "README.md": b"one\ntwo\nthree\nfour\nFIVE\n",
    "notebooks/old.ipynb": None,
    "src/old.py": None,
    "src/new.py": b"x = 2\n",
    "requirements.txt": b"numpy==2\n",
}


@pytest.fixture
def book(tmp_path, monkeypatch):
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    (tmp_path / "book").mkdir()
    made = Repository(tmp_path / "book")
    made.git("init", "--quiet", "--initial-branch=main")
    made.commit(BOOK)
    return made


@pytest.fixture
def reader(book, tmp_path, monkeypatch):
    """Returns a reader's clone of the older version. The book has a newer one."""
    book.git("clone", "--quiet", str(book.root), str(tmp_path / "reader"))
    book.commit(NEWER)
    made = Repository(tmp_path / "reader")

    def jupyter(root, *arguments):
        made.jupyter.append(arguments)
        return b"[]"

    monkeypatch.setattr(update, "jupyter", jupyter)
    return made


def works(reader):
    """Gives the reader answers, cells, outputs and a file of functions, as they are before an update."""
    mine = answered(BOOK[PRACTICE])
    mine["cells"].insert(2, cell("1 + 1", "2", id="0d2c1111-aaaa-bbbb-cccc-000000000001"))
    reader.write(PRACTICE, mine)
    reader.write(CHAPTER, answered(BOOK[CHAPTER]))
    reader.write("my_transformer.py", b"mine\n")
    reader.write("README.md", b"ONE\r\ntwo\r\nthree\r\nfour\r\nfive\r\n")  # from an editor on Windows
    reader.write(".gitignore", BOOK[".gitignore"].replace(b"\n", b"\r\n"))
    return ["# Practice of attention", ANSWER, "1 + 1", "# New", "# Two", SECOND, "# End"]


def test_an_update_keeps_what_the_reader_wrote_and_says_so(book, reader, capsys):
    expected = works(reader)
    before = reader.files()
    assert update.main([], reader.root) == 0
    after = reader.files()

    assert sources(after.pop(RENAMED)) == expected
    assert after.pop(CHAPTER) == written(NEWER[CHAPTER])
    assert after == {
        "README.md": b"ONE\ntwo\nthree\nfour\nFIVE\n",
        "src/new.py": b"x = 2\n",
        "requirements.txt": b"numpy==2\n",
        ".gitignore": BOOK[".gitignore"],
        "my_transformer.py": b"mine\n",
    }
    assert reader.git("rev-parse", "HEAD") == book.git("rev-parse", "HEAD")
    assert reader.git("status", "--short").split() == ["M", "README.md", "M", RENAMED]
    [kept] = [path for path in (reader.root / "backups").iterdir() if path.is_dir()]
    for path in (PRACTICE, CHAPTER, "README.md"):
        assert (kept / path).read_bytes() == before[path]
    assert sorted(reader.jupyter[-1]) == [CHAPTER, RENAMED, "trust"]

    said = capsys.readouterr().out
    assert f"{RENAMED} (was {PRACTICE}): 1 cell that you changed, 1 cell that you added\n" in said
    assert "README.md: your changes\n" in said
    assert f"without changing a cell. They show the book's outputs again:\n  {CHAPTER}\n" in said
    assert f"are in {kept.relative_to(reader.root)}." in said
    assert "The packages that the book needs have changed" in said

    now = reader.files()
    assert update.main([], reader.root) == 0
    assert "You have the newest version" in capsys.readouterr().out
    assert reader.files() == now


@pytest.mark.parametrize(
    ("newer", "target"),
    [
        ({RENAMED: BOOK[PRACTICE]}, RENAMED),
        ({RENAMED: notebook("# Rewritten\n" * 200, STUB)}, RENAMED),  # found by its number
        (  # found by what is in it
            {
                RENAMED: None,
                "notebooks/exercises/04-attention.ipynb": NEWER[RENAMED],
                "notebooks/exercises/03-vectors.ipynb": notebook("# Vectors"),
            },
            "notebooks/exercises/04-attention.ipynb",
        ),
    ],
)
def test_answers_follow_a_practice_to_its_new_name(book, reader, newer, target, capsys):
    works(reader)
    book.commit(newer)
    assert update.main([], reader.root) == 0
    assert ANSWER in sources(reader.read(target))
    assert f"{target} (was {PRACTICE}): " in capsys.readouterr().out
    assert not (reader.root / PRACTICE).exists()


@pytest.mark.parametrize("step", ["write", "remove", "take", "git"])
def test_an_interrupted_update_is_completed_by_the_next(reader, monkeypatch, step, capsys):
    expected = works(reader)
    calls = 0
    real = getattr(update.Copy, step)

    def interrupted(self, *arguments, **more):
        nonlocal calls
        if step != "git" or arguments[0] == "reset":
            calls += 1
            if calls == {"write": 6}.get(step, 1):
                raise KeyboardInterrupt
        return real(self, *arguments, **more)

    monkeypatch.setattr(update.Copy, step, interrupted)
    assert update.main([], reader.root) == 1
    monkeypatch.setattr(update.Copy, step, real)
    assert update.main([], reader.root) == 0
    assert "it is back" not in capsys.readouterr().out
    assert sources(reader.read(RENAMED)) == expected
    assert reader.read("README.md") == b"ONE\ntwo\nthree\nfour\nFIVE\n"
    assert reader.read(CHAPTER) == written(NEWER[CHAPTER])
    assert not (reader.root / PRACTICE).exists()
    assert reader.git("status", "--short").split() == ["M", "README.md", "M", RENAMED]


@pytest.mark.parametrize("branch", ["main", "mine", "--detach"])
def test_commits_of_the_reader_are_joined_with_the_book(book, reader, branch):
    if branch != "main":
        reader.git("switch", "--quiet", *(["--create"] if branch == "mine" else []), branch)
    reader.write(PRACTICE, answered(BOOK[PRACTICE]))
    mine = reader.commit({"notes.txt": b"mine\n"})
    expected = works(reader)
    assert update.main([], reader.root) == 0
    parents = reader.git("rev-parse", "HEAD^1", "HEAD^2").split()
    assert parents == [mine, book.git("rev-parse", "HEAD")]
    committed = reader.git("show", f"HEAD:{RENAMED}")
    assert sources(committed) == [source for source in expected if source != "1 + 1"]
    assert sources(reader.read(RENAMED)) == expected
    assert reader.git("ls-tree", "--name-only", "HEAD", "--", "notes.txt", PRACTICE) == "notes.txt"
    assert update.main([], reader.root) == 0
    assert sources(reader.read(RENAMED)) == expected


def test_an_older_notebook_is_merged_from_the_version_that_it_was_made_from(book, reader):
    """An open tab may save an older notebook over an update; a ZIP file's folder may be copied into a clone."""
    expected = works(reader)
    assert update.main([], reader.root) == 0
    late = answered(BOOK[PRACTICE])
    late["cells"].append(cell("2 + 2", id="late"))
    copied = "notebooks/exercises/03-attention-Copy1.ipynb"
    for path, saved in ((CHAPTER, answered(BOOK[CHAPTER])), (PRACTICE, late), (copied, late)):
        reader.write(path, saved)
    assert update.main([], reader.root) == 0
    assert reader.read(CHAPTER) == written(NEWER[CHAPTER])
    assert sources(reader.read(RENAMED)) == [*expected, "2 + 2"]
    assert reader.read(copied) == written(late)

    merged = reader.read(RENAMED)
    reader.write(PRACTICE, answered(BOOK[PRACTICE]))
    assert update.main([], reader.root) == 0
    assert reader.read(RENAMED) == merged
    assert not (reader.root / PRACTICE).exists()
    assert merged in [path.read_bytes() for path in (reader.root / "backups").rglob("03-practice.ipynb")]


def test_files_that_cannot_be_merged_are_the_books_and_the_readers_are_kept(reader, capsys):
    ours = {CHAPTER: b"{<<<<<<< broken", "README.md": b"mine\n", "src/new.py": b"in the way\n"}
    for path, content in ours.items():
        reader.write(path, content)
    (reader.root / PRACTICE).unlink()
    (reader.root / ".gitignore").unlink()
    reader.write("notebooks/old.ipynb", answered(BOOK["notebooks/old.ipynb"]))
    reader.write("src/old.py", b"x = 'mine'\n")
    assert update.main([], reader.root) == 0
    assert reader.read(RENAMED) == written(NEWER[RENAMED])
    assert reader.read(CHAPTER) == written(NEWER[CHAPTER])
    assert reader.read("README.md") == NEWER["README.md"]
    assert reader.read("src/new.py") == NEWER["src/new.py"]
    assert reader.read(".gitignore") == BOOK[".gitignore"]
    assert reader.read("src/old.py") == b"x = 'mine'\n"
    assert not (reader.root / "notebooks/old.ipynb").exists()
    [kept] = [path for path in (reader.root / "backups").iterdir() if path.is_dir()]
    assert {path: (kept / path).read_bytes() for path in ours} == ours
    said = capsys.readouterr().out
    for words in (
        "could not be read as a notebook",
        "the same lines",
        "it is back",
        "the book no longer has it",
    ):
        assert words in said


def offline(reader, book):
    reader.git("remote", "set-url", "origin", "https://me:secret@127.0.0.1:1/book.git")


def without_git(reader, book):
    (reader.root / ".git").rename(reader.root / "no-git")


def merging(reader, book):
    reader.commit({CHAPTER: b"mine"})
    subprocess.run(["git", "pull", "--quiet", "--no-rebase"], cwd=reader.root, capture_output=True)


def with_another_history(reader, book):
    book.git("switch", "--quiet", "--orphan", "other")
    book.commit({"x": b"x"})
    book.git("branch", "--force", "main")


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (without_git, "it may have been downloaded as a ZIP file"),
        (lambda reader, book: reader.git("remote", "remove", "origin"), "git remote add origin ADDRESS"),
        (offline, "and nothing has been changed. Are you online?"),
        (merging, "git has begun to merge files here and has not finished"),
        (with_another_history, "have no history in common"),
    ],
)
def test_what_prevents_an_update_is_one_sentence_and_changes_nothing(book, reader, what, sentence, capsys):
    works(reader) if what is not merging else None
    what(reader, book)
    before = reader.files()
    assert update.main([], reader.root) == 1
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert "secret" not in said.out + said.err
    assert reader.files() == before


def test_an_open_jupyterlab_is_closed_first_or_the_reader_insists(reader, monkeypatch, capsys):
    runs = json.dumps([{"root_dir": str(reader.root)}]).encode()
    monkeypatch.setattr(update, "jupyter", lambda *_: runs)
    before = reader.files()
    assert update.main([], reader.root) == 1
    assert "choose File > Shut Down" in capsys.readouterr().err
    assert reader.files() == before
    assert update.main(["--open"], reader.root) == 0


def merged(base, ours, theirs):
    content, words = update.merged_notebook(written(base), written(ours), written(theirs))
    return sources(content), words, json.loads(content)


def test_if_both_changed_a_cell_the_books_is_below_the_readers_as_text():
    newer = STUB.replace("(q, k)", "(queries, keys)")
    found, words, content = merged(
        notebook(STUB, SECOND), answered(notebook(STUB, SECOND)), notebook("# First", newer, SECOND)
    )
    assert found == ["# First", ANSWER, f"{update.NOTE}\n\n````python\n{newer}\n````", SECOND]
    assert [this["cell_type"] for this in content["cells"]] == ["markdown", "code", "markdown", "code"]
    assert words == "1 cell that you changed; the book changed 1 of them, too, and its version is below yours"
    assert content["cells"][1]["outputs"][0]["text"] == ["mine"]
    assert content["cells"][3] == cell(SECOND)

    again, words, _ = merged(notebook("# First", newer, SECOND), content, notebook(newer, SECOND, "# Last"))
    assert again == [*found[1:], "# Last"]
    assert words == "1 cell that you changed"


def test_a_cell_that_is_quite_another_now_is_still_the_same_cell():
    found, words, _ = merged(
        notebook("# One", "# Two"),
        notebook(cell("# mine", id=cell("# One")["id"]), "# Two"),
        notebook("# Zero", "# One", "# Two"),
    )
    assert (found, words) == (["# Zero", "# mine", "# Two"], "1 cell that you changed")


def test_answers_find_their_exercise_without_ids():
    """Colab drops them. The two stubs are alike, and their order has changed."""
    base = notebook(STUB, SECOND)
    ours = answered(base)
    ours["cells"].append(cell("1 + 1"))
    for this in ours["cells"]:
        del this["id"]
    theirs = notebook(SECOND.replace("(x)", "(z)"), "# Then", STUB.replace("(q, k)", "(a, b)"))
    found, _, content = merged(base, ours, theirs)
    assert found[:4] == [SECOND.replace("(x)", "(z)"), "1 + 1", "# Then", ANSWER]
    ids = [this["id"] for this in content["cells"]]
    assert len({*ids}) == len(ids)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (["own", "a", "b"], ["b", "a"], ["own", "b", "a"]),  # at the top
        (["a", "own", "own 2", "b"], ["a", "new", "b"], ["a", "own", "own 2", "new", "b"]),
        (["a", "own", "b"], ["b"], ["own", "b"]),  # the book dropped what it followed
        (["b"], ["a", "b", "new"], ["b", "new"]),  # deleted by the reader
        (["b"], ["# a is text", "b"], ["# a is text", "b"]),
        (["a", "same", "b"], ["a", "same", "b", "new"], ["a", "same", "b", "new"]),  # added by both
        (["b", "a"], ["a", "b", "new"], ["a", "b", "new"]),  # moved, not written
        (["a", "b", "a"], ["a", "b"], ["a", "b", "a"]),  # copied and pasted
    ],
)
def test_cells_of_the_reader_stay_at_their_place(ours, theirs, expected):
    cells = [cell(text) if text in "ab" else cell(text, id=f"own-{i}") for i, text in enumerate(ours)]
    found, _, content = merged(notebook("a", "b"), notebook(*cells), notebook(*theirs))
    assert found == expected
    ids = [this["id"] for this in content["cells"]]
    assert len({*ids}) == len(ids)


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "expected"),
    [
        (["one two three", "b"], ["b"], ["one two four", "b"], ["one two four", "b"]),  # deleted and changed
        (["b"], ["b", "one two three"], ["b", "one two four"], ["b", "one two three", "one two four"]),
        (["one two three", "b"], ["one two 3", "b"], ["b"], ["one two 3", "b"]),  # changed and dropped
        ([], [cell("# mine", id=cell("# book")["id"])], ["# book"], ["# mine", f"{update.NOTE}\n\n# book"]),
    ],
)
def test_nobodys_cell_is_lost_to_one_that_is_similar(base, ours, theirs, expected):
    assert merged(notebook(*base), notebook(*ours), notebook(*theirs))[0] == expected


def test_widgets_of_the_readers_cells_keep_their_states():
    shows = {"output_type": "display_data", "data": {VIEW: {"model_id": "view"}}, "metadata": {}}
    states = {"view": {"layout": "IPY_MODEL_part"}, "part": {}, "stale": {}, "book": {"of": "the reader"}}
    ours = notebook("a", cell("View()", outputs=[shows], id="own"), states=states)
    _, _, content = merged(notebook("a"), ours, notebook("a", "b", states={"book": {}, "view": {}}))
    stored = content["metadata"]["widgets"][STATE]["state"]
    assert stored == {"book": {}, "view": states["view"], "part": {}}


def test_a_merged_notebook_is_always_readable():
    half = cell("1", id="own")
    half["source"] = ["\ud83d"]
    content, _ = update.merged_notebook(
        written(notebook("a")), written(notebook("a", half)), written(notebook("é"))
    )
    assert json.loads(content)["cells"][0]["source"] == ["\ud83d"]
    for other in (b"{", b"[]", b"{}", b'{"cells": [1]}', b"null"):
        with pytest.raises(ValueError, match=r"."):
            update.merged_notebook(written(notebook("a")), other, written(notebook("b")))
