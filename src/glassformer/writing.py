"""Files that are there whole or not at all, and locks: what several programs may write at once."""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PATIENCE = 10.0  # seconds to wait for another notebook, which holds a lock for milliseconds
LOCK = ".lock"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds this path's lock, so that others who ask for it wait. The lock leaves nothing beside the file.

    Where the system knows no locks, or one is never given back, we go on without: no lock is worth the
    reader's work.
    """
    with contextlib.ExitStack() as stack:
        # Timeout is an OSError; without the library of locks there are no locks
        with contextlib.suppress(ImportError, OSError, RuntimeError, NotImplementedError):
            from filelock import FileLock

            name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
            lock = FileLock(Path(tempfile.gettempdir()) / f"glassformer-{name}.lock", timeout=PATIENCE)
            stack.enter_context(lock)
        yield


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Keeps others who ask here first from writing to this folder; the same thread may ask again.

    The system holds the lock, of a file in the folder, and takes it back from a program that dies: by flock on Linux
    and macOS, by LockFileEx on Windows.

    Raises:
        BlockingIOError: somebody else writes to it. Nobody waits: a run may take hours.
        OSError: the folder cannot be made or written to.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    # One object for each path and thread: it counts how often it was taken
    lock = FileLock(folder.resolve() / LOCK, timeout=0, is_singleton=True)
    try:
        lock.acquire()
    except Timeout:
        raise BlockingIOError(
            f"{folder} is in use by another run: wait until that run ends, or choose another folder"
        ) from None
    try:
        yield
    finally:
        if lock.lock_counter == 1:
            with contextlib.suppress(OSError):  # Windows removes it when it is given back
                (folder / LOCK).unlink()  # while it is held: who opened it meanwhile sees that it is gone
        lock.release()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file beside `path` to write to: it takes its place if all goes well, and is removed if not.

    A link stays a link, and the file that it leads to is replaced. Permissions stay as they were.

    Raises:
        OSError: it could not be written; the old file is as it was. The message names the file.
    """
    path = path.resolve()
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        os.close(handle)
        beside = Path(name)
        try:
            yield beside
            with open(beside, "rb+") as file:
                os.fsync(file.fileno())  # on the disk itself, before its name points to it
            if path.exists():
                shutil.copymode(path, beside)
            else:
                umask = os.umask(0)
                os.umask(umask)
                os.chmod(beside, 0o666 & ~umask)
            os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise


def write_whole(path: Path, data: bytes) -> None:
    """Write a new file beside the old one, and put it in its place in one step: never half a file.

    Raises:
        OSError: as `replacing`.
    """
    with replacing(path) as beside:
        beside.write_bytes(data)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Makes a system error name this file: "disk full" comes without a name."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
