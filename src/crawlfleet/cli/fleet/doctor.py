"""`doctor`: looks at the machine, the settings and the fleet, and says what to do."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from crawlfleet import config
from crawlfleet.cli.fleet import checks
from crawlfleet.cli.fleet.checks import DoctorCheck, DoctorVerdict, ok, problem, warning
from crawlfleet.cli.fleet.configuration import load_settings
from crawlfleet.cli.fleet.reset import claimed, store_file
from crawlfleet.cli.shell.access import Access
from crawlfleet.cli.shell.command import (
    ApiKey,
    AsJson,
    Authorities,
    Certificate,
    CertificateKey,
    ConfigFile,
    DataFolder,
    add_command,
)
from crawlfleet.cli.shell.connection import SavedConnection, find_connection
from crawlfleet.cli.shell.errors import FAILED
from crawlfleet.cli.shell.loop import run
from crawlfleet.cli.shell.output import CommandOutput, cell, table
from crawlfleet.errors import (
    ConfigError,
    Conflict,
    CrawlfleetError,
    MasterUnreachable,
    Refused,
    Unauthenticated,
)
from crawlfleet.model.attention import LOW, Concern
from crawlfleet.model.settings import Settings

SIGNS: Final = {
    DoctorVerdict.OK: ("✓", "green"),
    DoctorVerdict.WARNING: ("!", "yellow"),
    DoctorVerdict.PROBLEM: ("✗", "red"),
}

UNUSABLE: Final = "store_unusable"
MAX_CONCERNS: Final = 5
"""Maximum number of concerns that `doctor` shows."""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_command(
        app,
        "doctor",
        doctor,
        try_this=("crawlfleet doctor", "crawlfleet doctor --data ./fleet --json"),
    )


def doctor(
    url: Annotated[
        str | None, typer.Option(help="Address of the master; also CRAWLFLEET_URL.")
    ] = None,
    key: ApiKey = None,
    data: DataFolder = None,
    ca: Authorities = None,
    cert: Certificate = None,
    cert_key: CertificateKey = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Check the machine, the settings and the fleet; fails if something will not work."""
    access = Access(url=url, key=key, data=data, ca=ca, cert=cert, cert_key=cert_key)
    found = list(_examine(access, config_file))
    CommandOutput(json=as_json).show(found, lambda: draw_checks(found))
    if any(check.verdict is DoctorVerdict.PROBLEM for check in found):
        raise typer.Exit(FAILED)


def draw_checks(found: Sequence[DoctorCheck]) -> RenderableType:
    """Checks, one a line, and what follows from them."""
    problems = sum(check.verdict is DoctorVerdict.PROBLEM for check in found)
    warnings = sum(check.verdict is DoctorVerdict.WARNING for check in found)
    rows = (
        [
            Text(*SIGNS[check.verdict]),
            cell(check.name),
            cell(check.message),
            cell(check.remedy, "bold") if check.remedy else Text(),
        ]
        for check in found
    )
    summary = f"{_counted(problems, 'problem')}, {_counted(warnings, 'warning')}"
    if not problems + warnings:
        summary = "all is well"
    return Group(table(("", "what", "seen", "what to do"), rows, flexible=("seen",)), cell(summary))


def _counted(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _examine(access: Access, file: Path | None) -> Iterator[DoctorCheck]:
    yield from checks.machine()
    try:
        loaded = load_settings(file, access.data)
    except ConfigError as error:
        for line in str(error).splitlines():
            yield problem("settings", line, "correct it where it comes from")
        return
    settings = loaded.settings
    yield checks.configured(loaded)
    yield from checks.folder(config.data_dir(settings))
    store = _embedded_store(settings)
    yield checks.clock(store)
    fleet = _fleet(access)
    if not any(check.name == "master" and check.verdict is DoctorVerdict.OK for check in fleet):
        yield from _room_for_a_master(settings, store)
    yield from fleet


def _room_for_a_master(settings: Settings, store: Path | None) -> Iterator[DoctorCheck]:
    """Check whether a master can start on this machine."""
    if settings.server.port:
        yield checks.port(settings.server.host, settings.server.port)
    if store is None:
        yield ok("store", "on a server; not looked at from here")
        return
    try:
        with claimed(store):
            yield checks.store(store)
    except Conflict as error:
        yield warning("store", str(error), "a master holds it, but is not reachable from here")


def _embedded_store(settings: Settings) -> Path | None:
    try:
        return store_file(settings)
    except ConfigError:
        return None


def _fleet(access: Access) -> list[DoctorCheck]:
    """Check the fleet that is running."""
    try:
        connection = find_connection(access, environ=os.environ, cwd=Path.cwd(), home=Path.home())
    except MasterUnreachable:
        return [warning("master", "none is running here", "start one with `crawlfleet up`")]
    except ConfigError as error:
        return [problem("master", str(error), "give --url and --key")]
    return run(_ask(connection))


async def _ask(connection: SavedConnection) -> list[DoctorCheck]:
    from crawlfleet.client import Client

    try:
        url, key, trust = connection.url, connection.key, connection.trust
        async with Client(url, key, patience_s=0, trust=trust) as client:
            status = await client.status()
            concerns = await client.attention()
    except (Unauthenticated, Refused) as error:
        remedy = "give a valid key with --key or CRAWLFLEET_KEY"
        return [problem("master", f"{connection.url}: {error}", remedy)]
    except CrawlfleetError as error:
        remedy = "start it with `crawlfleet up`, or correct --url"
        return [problem("master", str(error), remedy)]
    online = status.totals.nodes.get("online", 0)
    seen = ok("master", f"{connection.url} answers, version {status.version}")
    for each in concerns:
        if each.kind == UNUSABLE:
            # What else is wrong mostly follows from that.
            return [seen, problem("store", each.message, each.remedy)]
    if not online:
        nodes = warning("nodes", "none is online", "start one with `crawlfleet worker`")
        # What else is wrong mostly follows from that.
        return [seen, nodes]
    return [seen, ok("nodes", f"{online} online"), *_attention(concerns)]


def _attention(concerns: Sequence[Concern]) -> Iterator[DoctorCheck]:
    """Report the fleet's concerns, without those of low severity."""
    pressing = [each for each in concerns if each.severity != LOW]
    for each in pressing[:MAX_CONCERNS]:
        yield warning("attention", each.message, each.remedy)
    if (left := len(pressing) - MAX_CONCERNS) > 0:
        yield warning("attention", f"and {left} more", "`crawlfleet attention` shows all")
    if not pressing:
        yield ok("attention", "nothing needs it")
