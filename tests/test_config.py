"""Where settings come from, which source wins, and what is said when one cannot be used."""

import json
from pathlib import Path
from typing import Any

import pytest

from crawlfleet import config
from crawlfleet.errors import ConfigError
from crawlfleet.model.resources import Resources
from crawlfleet.model.settings import Settings


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    cwd, home = tmp_path / "cwd", tmp_path / "home"
    cwd.mkdir()
    home.mkdir()
    return {"cwd": cwd, "home": home}


def load(
    places: dict[str, Path],
    toml: str | None = None,
    environ: dict[str, str] | None = None,
    flags: dict[str, Any] | None = None,
    file: Path | None = None,
) -> config.Loaded:
    if toml is not None:
        (places["cwd"] / "crawlfleet.toml").write_text(toml, encoding="utf-8")
    return config.load(file=file, environ=environ or {}, flags=flags or {}, **places)


def refusal(places: dict[str, Path], **sources: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load(places, **sources)
    return str(caught.value)


def test_defaults_hold_when_nothing_is_set(places: dict[str, Path]) -> None:
    loaded = load(places)
    assert loaded.settings.server == Settings().server
    assert loaded.file is None
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.origins.keys() == config.SETTINGS.keys()


def test_flags_win_over_environment_over_file_over_defaults(places: dict[str, Path]) -> None:
    toml = '[server]\nhost = "0.0.0.0"\nport = 1\nmax_body_mb = 8\n'
    environ = {"CRAWLFLEET_SERVER_PORT": "2", "CRAWLFLEET_SERVER_MAX_BODY_MB": "9.5"}
    loaded = load(places, toml, environ, {"server.port": 3, "workers": None})
    server = loaded.settings.server
    assert (server.host, server.port, server.max_body_mb) == ("0.0.0.0", 3, 9.5)
    assert loaded.origins["server.host"] == "crawlfleet.toml:2"
    assert loaded.origins["server.max_body_mb"] == "environment CRAWLFLEET_SERVER_MAX_BODY_MB"
    assert loaded.origins["server.port"] == "flag --port"
    assert loaded.origins["workers"] == "default"


def test_origin_names_the_line_however_the_key_is_written(places: dict[str, Path]) -> None:
    toml = (
        "# fleet\nworkers = 3\nlog.level = 'debug'\n\n[session]  # nodes\n"
        '"timeout_s" = 30\n[worker.resources]\ncpu_cores = 2\n'
    )
    origins = load(places, toml).origins
    assert origins["workers"] == "crawlfleet.toml:2"
    assert origins["log.level"] == "crawlfleet.toml:3"
    assert origins["session.timeout_s"] == "crawlfleet.toml:6"
    assert origins["worker.resources.cpu_cores"] == "crawlfleet.toml:8"


def test_the_file_is_looked_for_in_order(places: dict[str, Path], tmp_path: Path) -> None:
    def write(path: Path, workers: int) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"workers = {workers}\n")
        return path

    at_home = write(places["home"] / ".config/crawlfleet/crawlfleet.toml", 1)
    loaded = load(places)
    assert (loaded.settings.workers, loaded.file) == (1, at_home)
    assert loaded.origins["workers"] == f"{at_home}:1"

    write(places["cwd"] / "crawlfleet.toml", 2)
    assert load(places).settings.workers == 2

    named = write(tmp_path / "named.toml", 3)
    environ = {"CRAWLFLEET_CONFIG": str(named)}
    assert load(places, environ=environ).settings.workers == 3

    write(places["cwd"] / "asked.toml", 4)
    assert load(places, environ=environ, file=Path("asked.toml")).settings.workers == 4


def test_a_file_that_was_asked_for_must_exist(places: dict[str, Path]) -> None:
    message = refusal(places, file=Path("gone.toml"))
    assert "gone.toml" in message
    assert "flag --config" in message
    message = refusal(places, environ={"CRAWLFLEET_CONFIG": "~/gone.toml"})
    assert str(places["home"] / "gone.toml") in message
    assert "environment CRAWLFLEET_CONFIG" in message


def test_a_broken_file_is_told_with_its_line(places: dict[str, Path]) -> None:
    message = refusal(places, toml="workers = 2\nport = = 3\n")
    assert "crawlfleet.toml is not a TOML file" in message
    assert "line 2" in message


def test_lists_and_tables_are_json_in_the_environment(places: dict[str, Path]) -> None:
    environ = {
        "CRAWLFLEET_WORKER_LABELS": '{"rack": "7"}',
        "CRAWLFLEET_WORKER_CAPABILITIES": '{"javascript": true, "level": 3, "geo": ["de"]}',
        "CRAWLFLEET_WORKER_PYTHON_ALLOW": '["shop.*"]',
        "CRAWLFLEET_WORKER_COMMANDS": '{"pdf": ["pdftotext", "-"]}',
        "CRAWLFLEET_WORKER_RESOURCES_MEMORY_MB": "512",
        "CRAWLFLEET_WORKER_ALLOW_PRIVATE": "true",
        "CRAWLFLEET_WORKER_REGION": "eu-west",
    }
    worker = load(places, environ=environ).settings.worker
    assert worker.labels == {"rack": "7"}
    assert worker.capabilities == {"javascript": True, "level": 3.0, "geo": ["de"]}
    assert worker.python_allow == ("shop.*",)
    assert worker.commands == {"pdf": ("pdftotext", "-")}
    assert worker.resources == Resources(memory_mb=512.0)
    assert worker.allow_private is True
    assert worker.region == "eu-west"


def test_a_list_that_is_not_json_is_refused(places: dict[str, Path]) -> None:
    message = refusal(places, environ={"CRAWLFLEET_WORKER_PYTHON_ALLOW": "shop.*"})
    assert message.startswith("worker.python_allow = 'shop.*'")
    assert "expected JSON" in message


def test_secrets_and_addresses_are_not_settings_and_not_refused(places: dict[str, Path]) -> None:
    environ = dict.fromkeys(config.NOT_SETTINGS - {"CRAWLFLEET_CONFIG"}, "x")
    environ |= {"CRAWLFLEET_TEST_POSTGRESQL": "x", "CRAWLFLEET_SERVER_HOST": "", "PATH": "/bin"}
    assert load(places, environ=environ).settings.server.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"toml": "[server]\nprot = 1"}, ("server.prot", "crawlfleet.toml:2", "server.port?")),
        ({"toml": "[sever]\nport = 1"}, ("sever", "crawlfleet.toml:1", "server?")),
        ({"toml": "port = 1"}, ("port", "crawlfleet.toml:1", "server.port?")),
        ({"toml": "server = 1"}, ("server = 1", "crawlfleet.toml:1", "[server]")),
        ({"toml": "qqqq = 1"}, ("qqqq", "crawlfleet.toml:1", "remove it")),
        (
            {"environ": {"CRAWLFLEET_SERVER_PROT": "1"}},
            ("CRAWLFLEET_SERVER_PROT", "environment", "CRAWLFLEET_SERVER_PORT?"),
        ),
        (
            {"environ": {"CRAWLFLEET_ADMIN_KEYS": "s3cr3t"}},
            ("CRAWLFLEET_ADMIN_KEYS", "environment", "CRAWLFLEET_ADMIN_KEY?"),
        ),
        ({"flags": {"server.prot": 1}}, ("server.prot", "flag --prot", "server.port?")),
    ],
)
def test_unknown_names_are_refused_with_the_nearest_known(
    places: dict[str, Path], source: dict[str, Any], expected: tuple[str, ...]
) -> None:
    message = refusal(places, **source)
    for part in expected:
        assert part in message
    assert "s3cr3t" not in message


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("server.port", 65536, "a whole number from 0 to 65535"),
        ("server.port", -1, "the default, 8000"),
        ("server.port", True, "a whole number"),
        ("server.host", "", "not empty"),
        ("session.timeout_s", 0, "a number above 0"),
        ("session.timeout_s", float("inf"), "finite"),
        ("session.long_poll_s", "soon", "a number above 0"),
        ("dispatch.batch", 0, "a whole number from 1"),
        ("worker.slots", 0, "a whole number from 1"),
        ("worker.slots", 1.5, "a whole number from 1"),
        ("worker.labels", 3, "a table"),
        ("worker.python_allow", "shop.*", "a list"),
        ("worker.resources.cpu_cores", -1, "expected a number >= 0"),
        ("worker.allow_private", "maybe", "true or false"),
        ("retention.tasks_days", -0.5, "a number from 0"),
        ("log.level", "loud", "one of debug, error, info, warning"),
        ("log.files", 0, "a whole number from 1"),
        ("workers", -1, "a whole number from 0"),
    ],
)
def test_values_out_of_range_are_refused_with_value_origin_and_remedy(
    places: dict[str, Path], name: str, value: Any, expected: str
) -> None:
    group, _, leaf = name.rpartition(".")
    written = "inf" if value == float("inf") else json.dumps(value)
    header = f"[{group}]\n" if group else "\n"
    message = refusal(places, toml=f"{header}{leaf} = {written}\n")
    assert message.startswith(f"{name} = {value!r} (from crawlfleet.toml:2): ")
    assert expected in message


def test_numbers_in_the_environment_are_checked_too(places: dict[str, Path]) -> None:
    message = refusal(places, environ={"CRAWLFLEET_SERVER_PORT": "http"})
    assert message.startswith("server.port = 'http' (from environment CRAWLFLEET_SERVER_PORT): ")
    message = refusal(places, environ={"CRAWLFLEET_SESSION_LONG_POLL_S": "nan"})
    assert "session.long_poll_s" in message


def test_a_session_must_outlive_two_heartbeats(places: dict[str, Path]) -> None:
    message = refusal(places, flags={"session.heartbeat_interval_s": 6})
    assert "session.heartbeat_interval_s = 6 (from flag --heartbeat-interval-s)" in message
    assert "more than twice" in message
    toml = "[session]\ntimeout_s = 12.1\nheartbeat_interval_s = 6\n"
    assert load(places, toml).settings.session.timeout_s == 12.1


def test_all_that_is_wrong_is_told_at_once(places: dict[str, Path]) -> None:
    message = refusal(
        places,
        toml="[server]\nport = -1\nhots = 'x'\n",
        environ={"CRAWLFLEET_WORKER_SLOTS": "0"},
    )
    assert len(message.splitlines()) == 3


def test_data_folder_comes_out_absolute(places: dict[str, Path]) -> None:
    cwd, home = places["cwd"], places["home"]
    assert load(places).settings.data_dir == str(config.default_data_dir(home))
    assert load(places, flags={"data_dir": Path("here")}).settings.data_dir == str(cwd / "here")
    assert load(places, flags={"data_dir": "~/fleet"}).settings.data_dir == str(home / "fleet")
    assert load(places, flags={"data_dir": "/srv/fleet"}).settings.data_dir == "/srv/fleet"


def test_store_is_a_file_in_the_data_folder_unless_set() -> None:
    assert config.store_url(Settings(data_dir="/srv/fleet")) == "sqlite:////srv/fleet/crawlfleet.db"
    assert config.store_url(Settings(store="postgresql://db/fleet")) == "postgresql://db/fleet"


def test_every_setting_has_its_own_variable_and_a_description() -> None:
    variables = [setting.variable for setting in config.SETTINGS.values()]
    assert len(set(variables)) == len(variables)
    assert not set(variables) & config.NOT_SETTINGS
    for name, setting in config.SETTINGS.items():
        assert setting.description or name.startswith("worker.resources."), name


@pytest.mark.parametrize("name", ["allow_clients", "trusted_proxies"])
def test_networks_are_checked_before_anybody_relies_on_them(
    places: dict[str, Path], name: str
) -> None:
    good = load(places, f'server.{name} = ["10.0.0.0/8", "::1", "fd00::/8"]\n')
    assert getattr(good.settings.server, name) == ("10.0.0.0/8", "::1", "fd00::/8")
    message = refusal(places, toml=f'server.{name} = ["10.0.0.0/8", "10.0.0.0/64"]\n')
    assert f"server.{name}" in message
    assert "'10.0.0.0/64' is not an address or network" in message
    assert "crawlfleet.toml:1" in message


@pytest.mark.parametrize(
    ("folder", "is_refused"),
    [
        ("/srv/sinks", False),
        ("/srv/data/sinks", False),
        ("/srv/data-sinks", False),
        ("/srv/data", True),
        ("/srv", True),
        ("/", True),
        ("/srv/other/../data/.", True),
        ("/srv/data/logs", True),
        ("/srv/data/sinks/deeper", True),
        ("/srv/data-code", True),
        ("/srv/data-code/x", True),
        ("/srv/kept", True),
        ("/srv/kept/x", True),
    ],
)
def test_sinks_of_tasks_write_where_nothing_of_our_own_lies(
    places: dict[str, Path], folder: str, is_refused: bool
) -> None:
    flags = {"data_dir": "/srv/data", "output_dir": "/srv/kept", "worker.sinks_dir": folder}
    if is_refused:
        said = refusal(places, flags=flags)
        assert "worker.sinks_dir" in said
        assert "crawlfleet's own. Name a folder beside it" in said
    else:
        settings = load(places, flags=flags).settings
        assert config.sinks_dir(settings) == Path(folder)


def test_sinks_of_tasks_write_into_the_data_folder_unless_another_is_named(
    places: dict[str, Path],
) -> None:
    settings = load(places, flags={"data_dir": "data"}).settings
    assert config.sinks_dir(settings) == places["cwd"] / "data" / "sinks"
    named = load(places, flags={"worker.sinks_dir": "~/found"}).settings
    assert config.sinks_dir(named) == places["home"] / "found"
