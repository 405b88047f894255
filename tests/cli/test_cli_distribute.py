"""What a JSON file of `distribute` stands for, and what it is told when it is wrong."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from crawlfleet import config
from crawlfleet.cli.distribution.settings_file import DistributionFile, read, settings_of
from crawlfleet.cli.fleet import run as operate
from crawlfleet.errors import ConfigError

Run = Callable[..., Result]

ALL: dict[str, Any] = {
    "mode": "master",
    "device_id": "master-001",
    "device_name": "Master",
    "host": "0.0.0.0",
    "port": 8000,
    "master_url": "http://10.0.0.1:8000",
    "concurrent_tasks": 3,
    "task_timeout": 3600,
    "max_retry_count": 3,
    "dispatch_interval": 10,
    "load_balance_strategy": "least_tasks",
    "heartbeat_interval": 30,
    "timeout_check_interval": 60,
    "device_timeout": 300,
    "enable_monitoring": True,
    "api_key": "your-secure-api-key-here",
}


def written(folder: Path, keys: Any) -> Path:
    path = folder / "distribution.json"
    path.write_text(keys if isinstance(keys, str) else json.dumps(keys))
    return path


def test_every_key_is_known_and_stands_for_a_setting(tmp_path: Path) -> None:
    assert set(ALL) == set(DistributionFile.__struct_fields__)
    found = dict(settings_of(read(written(tmp_path, ALL))))
    assert found == {
        "server.host": "0.0.0.0",
        "server.port": 8000,
        "worker.slots": 3,
        "distribution.task_timeout_s": 3600,
        "distribution.max_retries": 3,
        "dispatch.default_strategy": "least_tasks",
        "session.heartbeat_interval_s": 30,
        "session.timeout_s": 300,
    }
    assert set(found) <= set(config.SETTINGS)


def test_without_monitoring_no_node_is_judged_by_what_it_measures() -> None:
    found = dict(settings_of(DistributionFile(enable_monitoring=False)))
    assert found["health.cpu_limit"] == 1.0
    assert set(found) <= set(config.SETTINGS)


@pytest.mark.parametrize("keys", [{"heartbeat_interval": 30}, {"device_timeout": 2}])
def test_an_interval_alone_still_fits_its_time_out(tmp_path: Path, keys: Any) -> None:
    found = dict(settings_of(read(written(tmp_path, keys))))
    assert found["session.timeout_s"] > 2 * found["session.heartbeat_interval_s"]


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ({"mode": "slave"}, "mode"),
        ({"prot": 8000}, "prot"),
        ({"port": "8000"}, "port"),
        ({"concurrent_tasks": 0}, "concurrent_tasks"),
        ({"heartbeat_interval": 30, "device_timeout": 60}, "device_timeout"),
        ("{", "not JSON"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, keys: Any, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        read(written(tmp_path, keys))


def test_something_has_to_be_asked_for(run: Run) -> None:
    result = run("distribute")
    assert result.exit_code == 2
    assert "--mode" in result.stderr


@pytest.mark.parametrize("mode", ["master", "standalone"])
def test_a_master_that_others_reach_takes_the_flags_that_it_asks_for(
    mode: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the command tells its process, and all that it starts, is no matter of other tests.
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(os, "umask", lambda mask: mask)
    begin = ("distribute", "--mode", mode, "--host", "0.0.0.0", "--data", str(tmp_path))
    refused = run(*begin)
    assert refused.exit_code == 1
    assert "--plain-http" in refused.stderr

    heard: list[dict[str, Any]] = []
    monkeypatch.setattr(operate, "master", lambda **flags: heard.append(flags))
    monkeypatch.setattr(operate, "up", lambda **flags: heard.append(flags))
    assert run(*begin, "--plain-http", "--tls-cert", "m.pem", "--tls-key", "m.key").exit_code == 0
    assert heard[0]["plain_http"] is True
    assert (heard[0]["tls_cert"], heard[0]["tls_key"]) == (Path("m.pem"), Path("m.key"))
