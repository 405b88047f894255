"""Settings files: made, shown, found, and thrown away with the rest."""

import fcntl
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from crawlfleet import config
from crawlfleet.cli.fleet.settings_file import render
from crawlfleet.cli.shell.connection import SavedConnection, write_connection

pytestmark = pytest.mark.slow

Run = Callable[..., Result]

SETTING = re.compile(r"^# (\w+ = .*)$", re.MULTILINE)


def load(file: Path) -> config.Loaded:
    return config.load(file=file, environ={}, flags={}, cwd=file.parent, home=file.parent)


def test_a_new_file_changes_nothing(place: Path, run: Run) -> None:
    assert run("init").exit_code == 0
    loaded = load(place / "crawlfleet.toml")
    assert set(loaded.origins.values()) == {config.DEFAULT}
    assert (place / ".local/share/crawlfleet").is_dir()


def test_every_line_of_a_new_file_can_be_uncommented(place: Path) -> None:
    file = place / "all.toml"
    file.write_text(SETTING.sub(r"\1", render()))
    loaded = load(file)
    defaults = config.load(environ={}, flags={}, cwd=place, home=place).settings
    assert loaded.settings == defaults
    unset = {name for name, origin in loaded.origins.items() if origin == config.DEFAULT}
    assert unset == {name for name, each in config.SETTINGS.items() if each.default is None}


def test_init_remembers_the_data_folder_it_was_given(place: Path, run: Run) -> None:
    assert run("init", "--data", "fleet", "--file", "sub/mine.toml").exit_code == 0
    settings = load(place / "sub/mine.toml").settings
    assert settings.data_dir == str(place / "fleet")
    assert (place / "fleet").is_dir()


def test_init_replaces_a_file_only_when_forced(place: Path, run: Run) -> None:
    file = place / "crawlfleet.toml"
    file.write_text("workers = 7\n")
    refused = run("init")
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert file.read_text() == "workers = 7\n"
    assert run("init", "--force").exit_code == 0
    assert load(file).settings.workers == 2


def test_config_shows_each_value_and_where_it_came_from(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "crawlfleet.toml").write_text("[server]\nport = 9000\n")
    monkeypatch.setenv("CRAWLFLEET_WORKERS", "3")
    shown = json.loads(run("config", "show", "--data", "d", "--json").stdout)
    by_name = {each["name"]: each for each in shown}
    assert set(by_name) == set(config.SETTINGS)
    assert by_name["server.port"]["value"] == 9000
    assert by_name["server.port"]["origin"] == "crawlfleet.toml:2"
    assert by_name["workers"]["origin"] == "environment CRAWLFLEET_WORKERS"
    assert by_name["data_dir"]["origin"] == "flag --data"
    assert by_name["log.level"]["origin"] == "default"
    lines = run("config", "show").stdout.splitlines()
    assert ["server.port", "9000", "crawlfleet.toml:2"] in [line.split() for line in lines]


def test_config_shows_no_password(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLFLEET_STORE", "postgresql://me:hunter2@db/fleet")
    for flags in ((), ("--json",)):
        shown = run("config", "show", *flags).stdout
        assert "postgresql://me:***@db/fleet" in shown
        assert "hunter2" not in shown


def test_config_path_names_the_file_that_is_read(place: Path, run: Run) -> None:
    assert run("config", "path").stdout == ""
    assert json.loads(run("config", "path", "--json").stdout) is None
    (place / "crawlfleet.toml").write_text("")
    assert run("config", "path").stdout.strip() == str(place / "crawlfleet.toml")


def test_a_broken_setting_is_told_with_its_origin(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRAWLFLEET_WORKERS", "many")
    result = run("config", "show")
    assert result.exit_code == 1
    assert "environment CRAWLFLEET_WORKERS" in result.stderr


@pytest.fixture
def used(place: Path) -> Path:
    """A data folder that a fleet has used."""
    folder = place / "fleet"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "master.log").write_text("{}")
    (folder / "nodes").mkdir()
    (folder / "output" / "task-1").mkdir(parents=True)
    for name in ("crawlfleet.db", "crawlfleet.db-wal", "crawlfleet.db.lock", "admin.key", "mine"):
        (folder / name).write_text("")
    for name in ("locks.db", "locks.db-wal", "pauses.jsonl"):
        (folder / name).write_text("")
    return folder


def test_reset_removes_the_store_logs_and_output_but_nothing_else(used: Path, run: Run) -> None:
    result = run("reset", "--data", "fleet", "--yes", "--json")
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)["removed"]) == 7
    assert {path.name for path in used.iterdir()} == {
        "admin.key",
        "crawlfleet.db.lock",
        "mine",
        "nodes",
    }
    assert "nothing to remove" in run("reset", "--data", "fleet").stdout


def test_reset_asks_first(used: Path, run: Run) -> None:
    assert run("reset", "--data", "fleet", input="n\n").exit_code == 1
    assert (used / "crawlfleet.db").exists()
    assert run("reset", "--data", "fleet", input="y\n").exit_code == 0
    assert not (used / "crawlfleet.db").exists()


def test_reset_is_refused_while_a_master_holds_the_store(used: Path, run: Run) -> None:
    with (used / "crawlfleet.db.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = run("reset", "--data", "fleet", "--yes")
    assert result.exit_code == 1
    assert "stop it first" in result.stderr
    assert (used / "crawlfleet.db").exists()


def test_reset_is_refused_while_the_fleet_is_alive(used: Path, run: Run) -> None:
    write_connection(used, SavedConnection(url="http://a:1", key="k", pid=os.getpid()))
    result = run("reset", "--data", "fleet", "--yes")
    assert result.exit_code == 1
    assert str(os.getpid()) in result.stderr
    write_connection(used, SavedConnection(url="http://a:1", key="k", pid=2**22 + 1))
    assert run("reset", "--data", "fleet", "--yes").exit_code == 0
    assert not (used / "connection.json").exists()


def test_reset_leaves_a_store_on_a_server_alone(
    used: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRAWLFLEET_STORE", "postgresql://db/fleet")
    result = run("reset", "--data", "fleet", "--yes")
    assert result.exit_code == 1
    assert "its own tools" in result.stderr
