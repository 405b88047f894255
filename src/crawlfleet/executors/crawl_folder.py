"""Folders for the frontiers of crawls on a node."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from crawlfleet.errors import ConfigError, SinkUnusable, StoreUnavailable


@contextlib.asynccontextmanager
async def scratch(task_id: str, *, lasting: bool) -> AsyncIterator[Path]:
    """Open a folder for the frontier. A lasting folder is kept if the attempt dies or its disk is
    full, so that the next attempt on this machine can continue; it is removed if the attempt is
    stopped. Raises `ConfigError` while another attempt has the folder."""
    if not lasting:
        with tempfile.TemporaryDirectory(prefix="crawlfleet-crawl-") as name:
            yield Path(name)
        return
    folder = Path(tempfile.gettempdir()) / f"crawlfleet-crawls-{os.getuid()}" / task_id
    with _holding(folder):
        try:
            yield folder
        except (SinkUnusable, StoreUnavailable):
            raise
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _holding(folder: Path) -> Iterator[None]:
    """Create a folder and lock it. The lock is on the folder itself and ends with it."""
    while (handle := _locked(folder)) is None:
        pass
    try:
        yield
    finally:
        os.close(handle)


def _locked(folder: Path) -> int | None:
    """Lock a folder and return its handle; `None` if another process removed the folder meanwhile.
    Raises `ConfigError` while another attempt holds the lock."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"{folder} is in use: another attempt at this crawl still runs on this machine; "
                "wait for its end"
            ) from error
        if os.path.samestat(os.fstat(handle), folder.stat()):
            stack.pop_all()
            return handle
    return None
