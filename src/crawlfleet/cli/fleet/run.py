"""Commands that run a fleet: `up`, `master`, `worker`."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from crawlfleet import config, event_loop, telemetry
from crawlfleet.cli.shell.loop import run
from crawlfleet.errors import ConfigError
from crawlfleet.model.settings import Settings
from crawlfleet.private_file import hold, private_folder

Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(help="Port to listen on.")]
TlsCert = Annotated[
    Path | None,
    typer.Option("--tls-cert", dir_okay=False, help="Certificate to show (PEM): switches on TLS."),
]
TlsKey = Annotated[
    Path | None,
    typer.Option("--tls-key", dir_okay=False, help="Its key, if that is in another file."),
]
TlsClientCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-client-ca",
        dir_okay=False,
        help="Authorities: whoever asks anything must show a certificate of theirs.",
    ),
]
PlainHttp = Annotated[
    bool | None,
    typer.Option("--plain-http", help="Answer others than this machine without TLS."),
]
Announce = Annotated[
    bool | None,
    typer.Option("--announce", help="Tell the local network of it, for workers with --discover."),
]
Data = Annotated[Path | None, typer.Option("--data", help="Folder of the store, logs and keys.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Settings file (TOML).", dir_okay=False)
]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command(
        epilog="Examples: `crawlfleet up` · `crawlfleet up --open` · "
        "`crawlfleet up --workers 4 --port 9000 --data ./fleet`"
    )(up)
    app.command(
        epilog="Examples: `crawlfleet master --port 8000 --data ./fleet` · "
        "`crawlfleet master --host 0.0.0.0 --tls-cert master.pem --tls-key master.key`"
    )(master)
    app.command(
        epilog="Examples: `crawlfleet worker --master http://127.0.0.1:8000 --join 8c1f…` · "
        "`crawlfleet worker --master https://one:8000 --master https://two:8000 --ca fleet-ca.pem` "
        "· `crawlfleet worker --discover --join 8c1f….sha256-47DE…`"
    )(worker)


def up(
    host: Host = None,
    port: Port = None,
    data: Data = None,
    config_file: ConfigFile = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    plain_http: PlainHttp = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes to start.")] = None,
    demo: Annotated[
        bool,
        typer.Option(help="Crawl a demo shop, with other tasks; ends with them if unattended."),
    ] = False,
    open_: Annotated[
        bool, typer.Option("--open", help="Open the dashboard in this machine's browser.")
    ] = False,
) -> None:
    """Start a whole fleet on this machine: one master, some workers, one SQLite file."""
    from crawlfleet.cli.fleet.up import Launcher
    from crawlfleet.listening import check_exposure

    settings = _settings(
        config_file,
        {
            "server.host": host,
            "server.port": port,
            "server.tls_cert": tls_cert,
            "server.tls_key": tls_key,
            "server.plain_http": plain_http,
            "data_dir": data,
            "workers": workers,
        },
    )
    check_exposure(settings.server)
    private_folder(config.data_dir(settings))
    flags = ["--config", str(config_file.resolve())] if config_file else []
    raise typer.Exit(run(Launcher(settings, flags, demo=demo, opens=open_).run()))


def master(
    host: Host = None,
    port: Port = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    plain_http: PlainHttp = None,
    announce: Announce = None,
    data: Data = None,
    config_file: ConfigFile = None,
) -> None:
    """Start a master: the API, the scheduler and the store.

    It listens beyond this machine only with TLS, or with --plain-http. A certificate that was
    replaced is read again within seconds, or at once on SIGHUP.
    """
    from crawlfleet.cli.fleet.credentials import admin_key, preset
    from crawlfleet.cli.shell.connection import left_behind, way_to_own
    from crawlfleet.compose.master import serve_master
    from crawlfleet.listening import check_exposure

    flags = {
        "server.host": host,
        "server.port": port,
        "server.tls_cert": tls_cert,
        "server.tls_key": tls_key,
        "server.tls_client_ca": tls_client_ca,
        "server.plain_http": plain_http,
        "server.announce": announce,
        "data_dir": data,
    }
    loaded = _loaded(config_file, flags)
    settings = loaded.settings
    check_exposure(settings.server)
    folder = private_folder(config.data_dir(settings))
    _configure_log(settings, "master.log", telemetry.Component.MASTER)
    key = admin_key(folder)
    way = way_to_own(settings, port=settings.server.port, key=key)
    with left_behind(folder, way):
        event_loop.run(
            serve_master(
                settings,
                admin_key=key,
                join_token=preset("CRAWLFLEET_JOIN_TOKEN"),
                origins=loaded.origins,
                secrets_key=preset("CRAWLFLEET_SECRETS_KEY") or "",
            ),
            fast=True,
        )


def worker(
    masters: Annotated[
        list[str] | None,
        typer.Option(
            "--master",
            metavar="URL",
            help="URL of the master. Of several, given again or parted by commas, the next is "
            "used when one cannot be reached.",
        ),
    ] = None,
    discover: Annotated[
        bool | None,
        typer.Option(
            "--discover",
            help="Look for the master on the local network instead. Needs a join token that names "
            "the master's key, or --ca.",
        ),
    ] = None,
    join: Annotated[
        str | None,
        typer.Option(
            "--join",
            help="Join token; better in CRAWLFLEET_JOIN_TOKEN where others can list processes. "
            "Needed once: a node that has joined comes back by itself.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of this node.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Cluster to join; it must exist.")] = None,
    ca: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, help="Authorities that the master's certificate must be of (PEM)."
        ),
    ] = None,
    cert: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Certificate for a master that asks for one (PEM)."),
    ] = None,
    cert_key: Annotated[
        Path | None,
        typer.Option(
            "--key", "--cert-key", dir_okay=False, help="Its key, if that is in another file."
        ),
    ] = None,
    data: Data = None,
    config_file: ConfigFile = None,
) -> None:
    """Start a worker: one node of a master's fleet."""
    from crawlfleet.cli.fleet.credentials import preset
    from crawlfleet.compose.node import run_worker
    from crawlfleet.listening import complete_url

    settings = _settings(
        config_file,
        {
            "worker.name": name,
            "worker.cluster": cluster,
            "worker.discover": discover,
            "worker.tls_ca": ca,
            "worker.tls_cert": cert,
            "worker.tls_key": cert_key,
            "data_dir": data,
        },
    )
    if bool(masters) == settings.worker.discover:
        raise ConfigError(
            "a worker is told where its master is with --master URL, or looks for it on the local "
            "network with --discover: give one of them"
        )
    label = settings.worker.name or "worker"
    identity = config.data_dir(settings) / "nodes" / f"{label}.json"
    join_token = join or preset("CRAWLFLEET_JOIN_TOKEN")
    if join_token is None and not identity.exists():
        raise ConfigError(
            "a new worker needs a join token: give --join, or set CRAWLFLEET_JOIN_TOKEN "
            "(`crawlfleet join-tokens create` makes one)"
        )
    private_folder(config.data_dir(settings))
    busy = f"another worker runs as {label!r} on this data folder; give this one another --name"
    lock = hold(identity.with_suffix(".lock"), busy=busy)
    _configure_log(settings, f"{label}.log", telemetry.Component.WORKER)
    with lock:
        event_loop.run(
            run_worker(
                settings,
                master_url=complete_url(",".join(masters)) if masters else None,
                join_token=join_token or "",
                identity=identity,
            ),
            fast=True,
        )


def _settings(file: Path | None, flags: dict[str, Any]) -> Settings:
    return _loaded(file, flags).settings


def _loaded(file: Path | None, flags: dict[str, Any]) -> config.Loaded:
    return config.load(
        file=file,
        environ=os.environ,
        flags={
            name: str(value) if isinstance(value, Path) else value for name, value in flags.items()
        },
        cwd=Path.cwd(),
        home=Path.home(),
    )


def _configure_log(settings: Settings, file: str, component: telemetry.Component) -> None:
    folder = config.data_dir(settings) / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    telemetry.configure(
        level=settings.log.level,
        format=settings.log.format,
        file=folder / file,
        max_file_mb=settings.log.max_file_mb,
        files=settings.log.files,
        component=component,
    )
