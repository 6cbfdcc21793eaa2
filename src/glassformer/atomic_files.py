"""Atomic writing of files, and locks, for files that several programs may write at once."""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PATIENCE = 10.0  # seconds to wait for another notebook, which usually holds a lock for milliseconds
LOCK = ".lock"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds this path's lock while others wait for it. The lock leaves no file behind.

    If the system has no locks, or a lock is never released, we continue without one: a lock is not worth
    losing the reader's work.
    """
    with contextlib.ExitStack() as stack:
        # Timeout is an OSError; without the lock library there are no locks
        with contextlib.suppress(ImportError, OSError, RuntimeError, NotImplementedError):
            from filelock import FileLock

            name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
            lock = FileLock(Path(tempfile.gettempdir()) / f"glassformer-{name}.lock", timeout=PATIENCE)
            stack.enter_context(lock)
        yield


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Keeps other programs that also use this function from writing to the folder; the same thread may call it again.

    The system locks a file in the folder and releases the lock if a program dies: with flock on Linux and
    macOS, and LockFileEx on Windows.

    Raises:
        BlockingIOError: another program writes to it. There is no waiting, because a run may take hours.
        OSError: the folder cannot be made or written to.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    # One object per path and thread, which counts how often it was acquired
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
            with contextlib.suppress(OSError):  # Windows removes it when it is released
                (folder / LOCK).unlink()  # while held, so that others who opened it see that it is gone
        lock.release()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Opens a new file next to `path`, which replaces it if all goes well and is removed if not.

    A link stays a link, and its target is replaced. Permissions are kept.

    Raises:
        OSError: it could not be written; the old file is unchanged. The message names the file.
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
    """Writes a new file next to the old one and replaces it in one step, so there is never half a file.

    Raises:
        OSError: as for `replacing`.
    """
    with replacing(path) as beside:
        beside.write_bytes(data)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Makes a system error name this file, because "disk full" has no file name."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
