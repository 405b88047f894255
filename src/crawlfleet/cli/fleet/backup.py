"""`backup` and `restore`: all that a store holds, into a file and back."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from crawlfleet import __version__, config
from crawlfleet.cli.fleet.configuration import load_settings
from crawlfleet.cli.shell.command import AsJson, ConfigFile, DataFolder, add_command
from crawlfleet.cli.shell.connection import is_alive, read_connection
from crawlfleet.cli.shell.loop import run
from crawlfleet.cli.shell.output import CommandOutput, cell, message_console, table
from crawlfleet.errors import BackupUnusable, ConfigError, Conflict
from crawlfleet.model.settings import Settings
from crawlfleet.private_file import keep_private
from crawlfleet.stop_signals import on_stop_signal

File = Annotated[Path, typer.Argument(metavar="FILE", show_default=False, dir_okay=False)]
Advance = Callable[[str, int], None]


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """Something of a fleet that is not in its store, and so in no backup of it."""

    what: str
    where: str
    """The place of this part, by the settings of this command."""
    without_it: str
    """Effect on a restored store that lacks this part."""


class BackupView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a backup or a restore."""

    file: str
    store: str
    schema_version: str
    made_at: float
    rows: dict[str, int]
    not_in_it: tuple[LeftOut, ...]
    """Other parts of the fleet, which have to be copied separately."""


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    add_command(
        app,
        "backup",
        backup,
        try_this=(
            "crawlfleet backup fleet.backup",
            "crawlfleet backup /backups/$(date +%F).backup --data /srv/fleet --json",
        ),
    )
    add_command(
        app,
        "restore",
        restore,
        try_this=(
            "crawlfleet restore fleet.backup --data ./new-fleet",
            "CRAWLFLEET_STORE=postgresql://… crawlfleet restore fleet.backup",
        ),
    )


def backup(
    file: File,
    data: DataFolder = None,
    config_file: ConfigFile = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Save all that the store holds into a file, as it is at one instant; masters may go on."""
    from crawlfleet.adapters.store.backup_file import destination

    settings = load_settings(config_file, data).settings
    url = config.store_url(settings)
    target = destination(file)
    if target.exists() and not force:
        raise ConfigError(f"{file} is there already; --force replaces it")
    if not target.parent.is_dir():
        raise ConfigError(f"there is no folder {target.parent}; make it first")
    try:
        view = run(_backup(url, file, left_out(settings)))
    except asyncio.CancelledError:
        raise typer.Exit(128 + signal.SIGTERM) from None
    _show(view, as_json, "not in the backup; copy it after it was made:")


def restore(
    file: File,
    data: DataFolder = None,
    config_file: ConfigFile = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace all that is in a store that is not empty.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fill the store from a backup, all of it or nothing; its masters must not run meanwhile."""
    settings = load_settings(config_file, data).settings
    running = read_connection(config.data_dir(settings))
    if running is not None and is_alive(running.pid):
        raise Conflict(
            f"a fleet runs with its data in {config.data_dir(settings)} (process {running.pid}); "
            "stop it first"
        )
    keep_private()
    lacking = left_out(settings)
    view = run(_restore(config.store_url(settings), file, force, lacking))
    _show(view, as_json, "not restored, since no backup has it; put your copies there:")


def left_out(settings: Settings) -> tuple[LeftOut, ...]:
    """Return the parts of a fleet with these settings that are not in its store."""
    data, output = config.data_dir(settings), config.output_dir(settings)
    frontiers = str(output / config.FRONTIERS_NAME)
    if settings.frontier:
        frontiers = f"{frontiers}, the Redis of the setting `frontier`, and the nodes"
    else:
        frontiers = f"{frontiers}, and the nodes"
    return (
        LeftOut(
            what="the output of crawls",
            where=str(output),
            without_it="the items of crawls cannot be read, and each such crawl says so",
        ),
        LeftOut(
            what="the code of bundles",
            where=str(output / config.BUNDLES_NAME),
            without_it="tasks that name a bundle fail until it is deployed again",
        ),
        LeftOut(
            what="the frontiers of crawls that have not ended",
            where=frontiers,
            without_it="such a crawl begins anew",
        ),
        LeftOut(
            what="the key that secrets are sealed with",
            where=str(data / config.SECRETS_KEY_NAME),
            without_it="secrets have to be set again",
        ),
        LeftOut(
            what="the settings and the log files",
            where=f"{config.FILE_NAME}, the environment, and {data / 'logs'}",
            without_it="the master runs with its defaults; logs of attempts are in the backup",
        ),
    )


async def _backup(url: str, file: Path, lacking: tuple[LeftOut, ...]) -> BackupView:
    from crawlfleet.adapters.store.backup_file import FORMAT, FORMAT_VERSION, Header, write_backup
    from crawlfleet.compose.by_url import open_archive

    archive = open_archive(url)
    header = Header(
        format=FORMAT,
        format_version=FORMAT_VERSION,
        schema_version=await archive.revision(),
        made_at=time.time(),
        made_by=f"crawlfleet {__version__}",
    )
    me = asyncio.current_task()
    assert me is not None, "a coroutine runs in a task"
    # What was written until then is removed, as it is on Ctrl-C.
    ends = on_stop_signal(me.cancel, of=(signal.SIGTERM, signal.SIGHUP))
    with ends, _progress("saving") as advance:
        rows = await write_backup(file, header, archive.dump(), advance)
    return _view(file, url, header, rows, lacking)


async def _restore(url: str, file: Path, force: bool, lacking: tuple[LeftOut, ...]) -> BackupView:
    from crawlfleet.adapters.store.backup_file import Backup
    from crawlfleet.adapters.store.sql.migrations import HEAD, SCRIPTS, is_known
    from crawlfleet.compose.by_url import open_archive

    saved = Backup(file)
    header = saved.header()
    if not is_known(header.schema_version, SCRIPTS):
        raise BackupUnusable(
            f"{file} has the schema {header.schema_version}, this program knows schemas up to "
            f"{HEAD}: {header.made_by} wrote it. Install that version or a newer one"
        )
    rows: dict[str, int] = {}
    with _progress("checking") as advance:
        # Before anything is touched: a damaged file must not cost even the time of a rollback.
        for portion in saved.portions():
            rows[portion.table] = rows.get(portion.table, 0) + len(portion.rows)
            advance(portion.table, len(portion.rows))
    with _progress("restoring", sum(rows.values())) as advance:

        def told() -> Iterator[Any]:
            for portion in saved.portions():
                yield portion
                advance(portion.table, len(portion.rows))

        await open_archive(url).load(told(), force=force, now=time.time())
    return _view(file, url, header, rows, lacking)


def _view(
    file: Path, url: str, header: Any, rows: dict[str, int], lacking: tuple[LeftOut, ...]
) -> BackupView:
    from crawlfleet.telemetry import mask_secrets

    return BackupView(
        file=str(file),
        store=mask_secrets({"store": url})["store"],
        schema_version=header.schema_version,
        made_at=header.made_at,
        rows=rows,
        not_in_it=lacking,
    )


def _show(view: BackupView, as_json: bool, lacking: str) -> None:
    output = CommandOutput(json=as_json)
    rows = ([cell(name), cell(count)] for name, count in view.rows.items())
    output.show(view, lambda: table(("table", "rows"), rows))
    output.remark(f"{sum(view.rows.values())} rows of {view.store}, in {view.file}")
    output.remark(lacking)
    for each in view.not_in_it:
        output.remark(f"  {each.what}: {each.where} (without it, {each.without_it})")


@contextmanager
def _progress(word: str, total: int | None = None) -> Iterator[Advance]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = message_console()
    with Progress(
        TextColumn(word),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed} rows"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as progress:
        bar = progress.add_task("", total=total)

        def advance(name: str, rows: int) -> None:
            progress.update(bar, description=name, advance=rows)

        yield advance
