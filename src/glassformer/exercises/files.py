"""Small files that several notebooks may write at once: a lock, and a write that is whole or not there."""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

PATIENCE = 10.0  # seconds to wait for another notebook, which holds a lock for milliseconds


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody else who asks for this path's lock is let in meanwhile. The lock leaves nothing beside the file.

    Where the system knows no locks, or one is never given back, we go on without: no lock is worth the
    reader's work.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, RuntimeError, NotImplementedError, Timeout):
            name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
            lock = FileLock(Path(tempfile.gettempdir()) / f"glassformer-{name}.lock", timeout=PATIENCE)
            stack.enter_context(lock)
        yield


def write_whole(path: Path, data: bytes) -> None:
    """Write a new file beside the old one, and put it in its place in one step: never half a file.

    A link stays a link, and the file that it leads to is written. Permissions stay as they were.

    Raises:
        OSError: it could not be written; the old file is as it was.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
        else:
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
