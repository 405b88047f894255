"""`reset`: forget all tasks and nodes of a data folder."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from crawlfleet import config
from crawlfleet.cli.fleet.configuration import load_settings
from crawlfleet.cli.shell.command import AsJson, ConfigFile, DataFolder, add_command
from crawlfleet.cli.shell.connection import is_alive, read_connection, remove_connection
from crawlfleet.cli.shell.output import CommandOutput, cell
from crawlfleet.errors import ConfigError, Conflict
from crawlfleet.model.own_files import OUTPUT_NAME, PAUSES_NAME
from crawlfleet.model.settings import Settings

SQLITE: Final = "sqlite:///"
STORE_ENDINGS: Final = ("", "-wal", "-shm")
LOGS: Final = "logs"


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a reset."""

    data_dir: str
    removed: list[str]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_command(
        app, "reset", reset, try_this=("crawlfleet reset", "crawlfleet reset --data ./fleet --yes")
    )


def reset(
    data: DataFolder = None,
    config_file: ConfigFile = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove the store, the logs and the output of a data folder: every task, node, key and event,
    and what crawls found. An `output_dir` elsewhere stays."""
    settings = load_settings(config_file, data).settings
    folder, store = config.data_dir(settings), store_file(settings)
    refuse_while_running(folder)
    with claimed(store):
        doomed = [path for path in _belongings(folder, store) if path.exists()]
        if doomed and not yes:
            typer.echo("\n".join(f"  {path}" for path in doomed), err=True)
            typer.confirm("Remove all of this for good?", abort=True, err=True)
        for path in doomed:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if (lock := lock_of(store)).exists():
            lock.write_bytes(b"")  # says of the next master's store that there was none
        remove_connection(folder)
    answer = Removed(data_dir=str(folder), removed=[str(path) for path in doomed])
    what = f"removed {len(doomed)} files and folders" if doomed else "nothing to remove"
    CommandOutput(json=as_json).show(answer, lambda: cell(f"{what} in {folder}"))


def refuse_while_running(folder: Path) -> None:
    """Raise `Conflict` when the fleet of this data folder is alive."""
    left = read_connection(folder)
    if left is not None and is_alive(left.pid):
        raise Conflict(
            f"a fleet is running with its data in {folder} (process {left.pid}); stop it first"
        )


def store_file(settings: Settings) -> Path:
    """The file of an embedded store; `ConfigError` for a store on a server."""
    url = config.store_url(settings)
    if not url.startswith(SQLITE):
        raise ConfigError("the store is not a file of this machine; empty it with its own tools")
    return Path(url.removeprefix(SQLITE))


def lock_of(store: Path) -> Path:
    """Return the file that a master locks while it has the store open."""
    return store.with_name(f"{store.name}.lock")


@contextmanager
def claimed(store: Path) -> Iterator[None]:
    """Keep masters away from the store; raises `Conflict` when one has it open."""
    lock = lock_of(store)
    if not lock.exists():
        yield
        return
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"a master has {store} open; stop it first") from None
        yield


def _belongings(folder: Path, store: Path) -> list[Path]:
    files = [store.with_name(store.name + ending) for ending in STORE_ENDINGS]
    files += [folder / (config.LOCKS_NAME + ending) for ending in STORE_ENDINGS]
    return [*files, folder / PAUSES_NAME, folder / LOGS, folder / OUTPUT_NAME]
