"""How a command finds its master."""

import os
import stat
from pathlib import Path

import pytest

from crawlfleet.cli.shell.connection import (
    Access,
    SavedConnection,
    find_connection,
    is_alive,
    left_behind,
    read_connection,
    remove_connection,
    way_to_own,
    write_connection,
)
from crawlfleet.errors import ConfigError, MasterUnreachable
from crawlfleet.model.settings import ServerSettings, Settings

LEFT = SavedConnection(url="http://127.0.0.1:8000", key="left", pid=1)


def find(
    home: Path,
    environ: dict[str, str] | None = None,
    url: str | None = None,
    key: str | None = None,
) -> SavedConnection:
    access = Access(url=url, key=key, data=home / "data")
    return find_connection(access, environ=environ or {}, cwd=home, home=home)


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    write_connection(tmp_path / "data", LEFT)
    environ = {"CRAWLFLEET_URL": "http://env:1", "CRAWLFLEET_KEY": "env"}
    assert find(tmp_path) == LEFT
    assert find(tmp_path, environ) == SavedConnection(url="http://env:1", key="env")
    assert find(tmp_path, environ, url="http://flag:1", key="flag") == SavedConnection(
        url="http://flag:1", key="flag"
    )


def test_the_admin_key_of_the_environment_is_used_when_no_other_is_given(tmp_path: Path) -> None:
    environ = {"CRAWLFLEET_ADMIN_KEY": "admin"}
    assert find(tmp_path, environ, url="http://a:1").key == "admin"
    assert find(tmp_path, {**environ, "CRAWLFLEET_KEY": "own"}, url="http://a:1").key == "own"


def test_several_masters_are_parted_by_commas(tmp_path: Path) -> None:
    found = find(tmp_path, url="one:1, http://two:2/,", key="k")
    assert found.url == "http://one:1,http://two:2"


def test_a_key_alone_goes_to_the_fleet_of_the_data_folder(tmp_path: Path) -> None:
    write_connection(tmp_path / "data", LEFT)
    found = find(tmp_path, key="flag")
    assert (found.url, found.key) == (LEFT.url, "flag")


def test_the_key_of_the_file_is_sent_to_no_other_address(tmp_path: Path) -> None:
    write_connection(tmp_path / "data", LEFT)
    assert find(tmp_path, url=LEFT.url + "/").key == "left"
    with pytest.raises(ConfigError, match="no key for http://elsewhere:1"):
        find(tmp_path, url="http://elsewhere:1")


def test_host_and_port_are_a_short_url(tmp_path: Path) -> None:
    assert find(tmp_path, url="fleet.local:8000", key="k").url == "http://fleet.local:8000"


def test_without_any_hint_the_error_names_the_folder_that_was_looked_at(tmp_path: Path) -> None:
    with pytest.raises(MasterUnreachable, match=str(tmp_path / "data")):
        find(tmp_path)


def test_the_file_is_for_its_owner_only_and_can_be_removed_twice(tmp_path: Path) -> None:
    write_connection(tmp_path, LEFT)
    [file] = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_connection(tmp_path) == LEFT
    remove_connection(tmp_path)
    remove_connection(tmp_path)
    assert read_connection(tmp_path) is None


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "connection.json").write_text("{")
    with pytest.raises(ConfigError, match=r"connection\.json cannot be read"):
        read_connection(tmp_path)


def test_only_processes_that_exist_are_alive() -> None:
    assert is_alive(os.getpid())
    assert not is_alive(0)
    assert not is_alive(2**22 + 1)  # above the largest process number of Linux


def test_a_master_leaves_the_way_to_it_for_as_long_as_it_runs(tmp_path: Path) -> None:
    settings = Settings(server=ServerSettings(host="0.0.0.0"))
    way = way_to_own(settings, port=8123, key="own")
    with left_behind(tmp_path, way):
        assert read_connection(tmp_path) == way
    assert way.url == "http://127.0.0.1:8123"
    assert read_connection(tmp_path) is None


def test_the_way_that_somebody_alive_left_stays(tmp_path: Path) -> None:
    of_up = SavedConnection(url="http://127.0.0.1:8000", key="up", pid=os.getpid())
    write_connection(tmp_path, of_up)
    with left_behind(tmp_path, way_to_own(Settings(), port=8000, key="own")):
        assert read_connection(tmp_path) == of_up
    assert read_connection(tmp_path) == of_up
