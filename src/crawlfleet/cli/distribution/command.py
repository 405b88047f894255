"""`distribute`: the command line of an earlier system, for its users.

It starts the same processes as `master`, `worker` and `up`. Its JSON file takes the place of a
settings file: the environment and flags win over it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from crawlfleet import config
from crawlfleet.cli.distribution.settings_file import (
    DEFAULT_MASTER,
    WITHOUT_EFFECT,
    DistributionFile,
    Mode,
    read,
    settings_of,
)
from crawlfleet.cli.fleet import run as operate
from crawlfleet.cli.fleet.credentials import join_token, kept_secret
from crawlfleet.cli.fleet.status import status as show_status
from crawlfleet.cli.shell.access import Access
from crawlfleet.cli.shell.command import at_desk, examples
from crawlfleet.cli.shell.connection import read_connection
from crawlfleet.cli.shell.loop import run
from crawlfleet.cli.shell.output import CommandOutput
from crawlfleet.errors import ConfigError
from crawlfleet.listening import url_of
from crawlfleet.private_file import private_folder
from crawlfleet.views.distribution import DEVICE_ID, DEVICE_NAME

LABELS: Final = config.SETTINGS["worker.labels"].variable


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        "distribute",
        epilog=examples(
            "crawlfleet distribute --mode standalone",
            "crawlfleet distribute --mode master --host 0.0.0.0 --port 8000 --plain-http",
            "crawlfleet distribute --mode worker --device-id worker-001",
            "crawlfleet distribute --mode master --config config/distribution_master.json",
            "crawlfleet distribute --status",
        ),
    )(distribute)


def distribute(
    mode: Annotated[Mode | None, typer.Option(help="What to start.")] = None,
    host: Annotated[str | None, typer.Option(help="Address that the master listens on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port that the master listens on.")] = None,
    device_id: Annotated[str | None, typer.Option(help="Unique id of this worker.")] = None,
    device_name: Annotated[str | None, typer.Option(help="Name of this worker.")] = None,
    file: Annotated[
        Path | None, typer.Option("--config", help="Settings file (JSON).", dir_okay=False)
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Show the state and end.")] = False,
    tls_cert: operate.TlsCert = None,
    tls_key: operate.TlsKey = None,
    plain_http: operate.PlainHttp = None,
    data: operate.Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, for --status.")] = False,
) -> None:
    """Start a master, a worker or both, or show the state, with JSON settings of `distribution`."""
    said = read(file) if file else DistributionFile()
    given = {"host": host, "port": port, "device_id": device_id, "device_name": device_name}
    said = msgspec.structs.replace(
        said, **{name: value for name, value in given.items() if value is not None}
    )
    chosen = mode or said.mode
    if status:
        return _show(said, data, as_json=as_json)
    if chosen is None:
        raise typer.BadParameter("say --mode master, worker or standalone, or --status")
    _remember(said)
    for key in WITHOUT_EFFECT:
        if getattr(said, key) is not None:
            typer.echo(f"{key} has no effect: nothing waits for an interval here", err=True)
    folder = _folder(data)
    listening: dict[str, Any] = {
        "host": host,
        "port": port,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "plain_http": plain_http,
    }
    if chosen == "standalone":
        _preset("CRAWLFLEET_ADMIN_KEY", said.api_key)
        return operate.up(**listening, data=data)
    if chosen == "master":
        _preset("CRAWLFLEET_ADMIN_KEY", said.api_key)
        private_folder(folder)
        # For workers on this machine, who find it in the same folder.
        _preset("CRAWLFLEET_JOIN_TOKEN", join_token(folder))
        return operate.master(**listening, data=data)
    return operate.worker(
        masters=[said.master_url or DEFAULT_MASTER],
        join=said.api_key or os.environ.get("CRAWLFLEET_JOIN_TOKEN") or _local_token(folder),
        name=said.device_id or said.device_name,
        data=data,
    )


def _remember(said: DistributionFile) -> None:
    """Make the settings of the file visible to this program and to all processes that it starts."""
    for name, value in settings_of(said):
        os.environ.setdefault(config.SETTINGS[name].variable, _text(value))
    labels = _labels(said)
    if labels:
        own = msgspec.json.decode(os.environ.get(LABELS) or "{}", type=dict[str, str])
        os.environ[LABELS] = msgspec.json.encode({**labels, **own}).decode()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def _labels(said: DistributionFile) -> Mapping[str, str]:
    named = {DEVICE_ID: said.device_id, DEVICE_NAME: said.device_name}
    return {name: value for name, value in named.items() if value}


def _preset(variable: str, secret: str | None) -> None:
    if secret:
        os.environ.setdefault(variable, secret)


def _folder(data: Path | None) -> Path:
    loaded = config.load(
        environ=os.environ,
        flags={"data_dir": str(data) if data else None},
        cwd=Path.cwd(),
        home=Path.home(),
    )
    return config.data_dir(loaded.settings)


def _local_token(folder: Path) -> str:
    """The join token of a master on this machine."""
    token = kept_secret(folder / "join.key")
    if token is None:
        raise ConfigError(
            "a worker needs the api_key of its master: write it into the file given with --config, "
            "or set CRAWLFLEET_JOIN_TOKEN"
        )
    return token


def _show(said: DistributionFile, data: Path | None, *, as_json: bool) -> None:
    """Show the state of the master that is named, else of the one of the data folder."""
    url = said.master_url
    if url is None and (said.host or said.port):
        url = url_of(said.host or "", said.port or 8000, tls=False, anywhere="127.0.0.1")
    folder = _folder(data)
    key = said.api_key or os.environ.get("CRAWLFLEET_ADMIN_KEY") or None
    named = os.environ.get("CRAWLFLEET_URL") or os.environ.get("CRAWLFLEET_KEY")
    if key is None and not named and (url is not None or read_connection(folder) is None):
        key = kept_secret(folder / "admin.key")
        url = url or DEFAULT_MASTER
    run(at_desk(show_status, Access(url=url, key=key, data=data), CommandOutput(json=as_json), {}))
