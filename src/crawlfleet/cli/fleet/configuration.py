"""`init` and `config`: make a settings file, and see which settings hold and why."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from crawlfleet import config
from crawlfleet.cli.fleet import settings_file
from crawlfleet.cli.shell.command import (
    AsJson,
    CommandContext,
    ConfigFile,
    DataFolder,
    add_command,
    add_fleet_command,
)
from crawlfleet.cli.shell.output import CommandOutput, cell, table
from crawlfleet.errors import ConfigError
from crawlfleet.model.admin_requests import SettingView


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    add_command(
        app,
        "init",
        init,
        try_this=("crawlfleet init", "crawlfleet init --data ./fleet --file ./crawlfleet.toml"),
    )
    group = typer.Typer(no_args_is_help=True, help="See which settings hold, and why.")
    app.add_typer(group, name="config")
    add_command(
        group,
        "show",
        show,
        try_this=("crawlfleet config show", "CRAWLFLEET_WORKERS=8 crawlfleet config show --json"),
    )
    add_fleet_command(group, "master", show_master, try_this=["crawlfleet config master"])
    add_command(group, "path", path, try_this=["crawlfleet config path"])


def load_settings(file: Path | None, data: Path | None) -> config.Loaded:
    """The settings of this process, as all commands read them."""
    flags: Mapping[str, Any] = {"data_dir": data}
    return config.load(file=file, environ=os.environ, flags=flags, cwd=Path.cwd(), home=Path.home())


def init(
    data: DataFolder = None,
    file: Annotated[Path, typer.Option(help="The settings file to write.", dir_okay=False)] = Path(
        config.FILE_NAME
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Make the data folder, and a settings file that shows every setting."""
    if file.exists() and not force:
        raise ConfigError(f"{file} is there already; --force replaces it")
    chosen = str(data.expanduser().resolve()) if data else ""
    folder = Path(chosen) if chosen else config.default_data_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(settings_file.render(data_dir=chosen), encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{error.filename} cannot be written: {error.strerror}; choose another place"
        ) from error
    output = CommandOutput(json=False)
    output.remark(f"settings in {file}, data in {folder}; `crawlfleet up` starts a fleet")


def show(config_file: ConfigFile = None, data: DataFolder = None, as_json: AsJson = False) -> None:
    """Show every setting, its value, and where that came from."""
    loaded = load_settings(config_file, data)
    views = [_view(loaded, setting) for setting in config.SETTINGS.values()]
    CommandOutput(json=as_json).show(views, lambda: draw_settings(views))


async def show_master(desk: CommandContext) -> None:
    """Show the settings that a running master works by, and where each came from."""
    views = await desk.fleet.settings()
    desk.output.show(views, lambda: draw_settings(views))


def path(config_file: ConfigFile = None, data: DataFolder = None, as_json: AsJson = False) -> None:
    """Show which settings file is read, if there is one."""
    file = load_settings(config_file, data).file
    output = CommandOutput(json=as_json)
    if file is None and not as_json:
        output.remark(f"no settings file; `crawlfleet init` makes {config.FILE_NAME}")
        return
    output.show(None if file is None else str(file), lambda: cell(file))


def draw_settings(views: list[SettingView]) -> Table:
    """Settings, one a line; those that somebody set stand out."""
    return table(
        ("setting", "value", "from"),
        (
            [
                cell(view.name),
                cell(
                    msgspec.json.encode(view.value).decode(),
                    "" if view.origin == config.DEFAULT else "bold",
                ),
                cell(view.origin, "dim" if view.origin == config.DEFAULT else "green"),
            ]
            for view in views
        ),
        flexible=("value",),
    )


def _view(loaded: config.Loaded, setting: config.Setting) -> SettingView:
    from crawlfleet.telemetry import mask_secrets

    value: Any = loaded.settings
    for part in setting.name.split("."):
        value = getattr(value, part)
    return SettingView(
        name=setting.name,
        value=mask_secrets({setting.name: value})[setting.name],
        origin=loaded.origins[setting.name],
        default=setting.default,
        description=setting.description,
    )
