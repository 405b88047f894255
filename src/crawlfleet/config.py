"""Reads settings: defaults, then a TOML file, then the environment, then flags; the last one wins.

A setting has a dotted name, `server.port`. In the file it is `port` in `[server]`, in the
environment `CRAWLFLEET_SERVER_PORT`. The origin of each value is kept. Lists and tables are JSON in
the environment, and replace the earlier value as a whole. One error reports all problems, each with
the value, its origin and the remedy.
"""

import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from crawlfleet.errors import ConfigError
from crawlfleet.model.own_files import OUTPUT_NAME, STORE_NAME
from crawlfleet.model.settings import Settings

PREFIX: Final = "CRAWLFLEET_"
FILE_NAME: Final = "crawlfleet.toml"
LOCKS_NAME: Final = "locks.db"
FRONTIERS_NAME: Final = "frontiers"
"""The folder of crawls' frontiers, beside their output."""
BUNDLES_NAME: Final = "bundles"
"""The folder of submitted bundles of code, beside the frontiers."""
CODE_NAME: Final = "code"
SINKS_NAME: Final = "sinks"
SECRETS_KEY_NAME: Final = "secrets.key"
DEFAULT: Final = "default"

S = TypeVar("S", bound=msgspec.Struct)

NOT_SETTINGS: Final = frozenset(
    {
        "CRAWLFLEET_CONFIG",
        "CRAWLFLEET_URL",
        "CRAWLFLEET_KEY",
        "CRAWLFLEET_CA",
        "CRAWLFLEET_CERT",
        "CRAWLFLEET_CERT_KEY",
        "CRAWLFLEET_ADMIN_KEY",
        "CRAWLFLEET_JOIN_TOKEN",
        "CRAWLFLEET_SECRETS_KEY",
        "CRAWLFLEET_COMPILE",
        "CRAWLFLEET_SOAK",
    }
)
"""Variables with the prefix of crawlfleet that are no settings: addresses, secrets, options of the
build and of soak tests."""
_FLAGS: Final = {
    "data_dir": "--data",
    "worker.tls_ca": "--ca",
    "worker.tls_cert": "--cert",
    "worker.tls_key": "--key",
}
"""Flags that are not named after the last word of their setting."""
FOREIGN_PREFIXES: Final = ("CRAWLFLEET_TEST_", "CRAWLFLEET_TASK_")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting: its name, type, default and description."""

    name: str
    """Dotted, such as `server.port`."""
    type: Any
    default: Any
    description: str

    @property
    def variable(self) -> str:
        """Name of the setting's environment variable."""
        return PREFIX + self.name.replace(".", "_").upper()


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, and for each dotted name where its value came from."""

    settings: Settings
    origins: dict[str, str]
    file: Path | None = None
    """The file that was read, if there was one."""


class _Given(msgspec.Struct, frozen=True):
    """A value that the file, the environment or a flag sets, and its origin."""

    value: Any
    origin: str
    textual: bool = False
    """Numbers and booleans of this origin are text (all origins except TOML)."""


def _walk(cls: type[msgspec.Struct], prefix: str = "") -> Iterator[Setting | str]:
    """Yield all settings below a struct; the name of a group comes before its settings."""
    for field in msgspec.structs.fields(cls):
        name = prefix + field.name
        if isinstance(field.default, msgspec.Struct):
            yield name
            yield from _walk(type(field.default), name + ".")
        else:
            default = field.default
            if default is msgspec.NODEFAULT:
                default = field.default_factory()
            yield Setting(
                name=name, type=field.type, default=default, description=described(field.type)
            )


def described(type: Any) -> str:
    """Return the description in a field's annotation; empty when it has none."""
    info = inspect.type_info(type)
    schema = (info.extra_json_schema or {}) if isinstance(info, inspect.Metadata) else {}
    return str(schema.get("description", ""))


SETTINGS: Final = {s.name: s for s in _walk(Settings) if isinstance(s, Setting)}
"""Every setting by its dotted name, in the order of the model."""
_GROUPS: Final = frozenset(g for g in _walk(Settings) if isinstance(g, str))
_VARIABLES: Final = {s.variable: s for s in SETTINGS.values()}


def load(
    *,
    file: Path | None = None,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    cwd: Path,
    home: Path,
) -> Loaded:
    """Load the settings from all sources. Folders come out absolute; a flag that is `None` is not
    set.

    `file` is the argument of `--config`. Raises `ConfigError` that names all problems.
    """
    problems: list[str] = []
    path = _find_file(file, environ, cwd, home)
    given: dict[str, _Given] = {}
    if path is not None:
        given |= _from_file(path, cwd, problems)
    given |= _from_environment(environ, problems)
    given |= _from_flags(flags, problems)

    values: dict[str, Any] = {}
    for name, entry in given.items():
        try:
            values[name] = _convert(SETTINGS[name], entry)
        except ValueError as error:
            problems.append(_describe(name, entry, f"{error}. {_remedy(SETTINGS[name])}"))
    if not problems:
        problems += _contradictions(values, given)
    if problems:
        raise ConfigError("\n".join(problems))

    values["data_dir"] = _absolute(values.get("data_dir", ""), cwd=cwd, home=home)
    for name in ("output_dir", "worker.sinks_dir"):
        if values.get(name):
            values[name] = _absolute(values[name], cwd=cwd, home=home)
    settings = _build(values)
    if wrong := sinks_dir_problem(settings):
        name = "worker.sinks_dir"
        raise ConfigError(_describe(name, given[name], wrong))
    origins = {name: given[name].origin if name in given else DEFAULT for name in SETTINGS}
    return Loaded(settings=settings, origins=origins, file=path)


def default_data_dir(home: Path | None = None) -> Path:
    """Return the folder of the store, logs and keys that is used when no setting names one."""
    return (home or Path.home()) / ".local" / "share" / "crawlfleet"


def data_dir(settings: Settings) -> Path:
    """Return the folder of the store, logs and keys; the default when the settings name none."""
    return Path(settings.data_dir) if settings.data_dir else default_data_dir()


def output_dir(settings: Settings) -> Path:
    """Return the folder in which crawls' output is kept."""
    return Path(settings.output_dir) if settings.output_dir else data_dir(settings) / OUTPUT_NAME


def code_dir(settings: Settings) -> Path:
    """Return the folder of a node for submitted code. It lies beside the data folder, not in it:
    the code may read its own folder, and the data folder holds keys and tokens."""
    given = settings.worker.code_dir
    data = data_dir(settings).absolute()
    return Path(given) if given else data.with_name(f"{data.name}-{CODE_NAME}")


def sinks_dir(settings: Settings) -> Path:
    """Return the folder of a node below which sinks of tasks write their files."""
    given = settings.worker.sinks_dir
    return Path(os.path.normpath(given or data_dir(settings).absolute() / SINKS_NAME))


def sinks_dir_problem(settings: Settings) -> str:
    """Return why tasks may not write in `worker.sinks_dir`: it contains, or lies in, a folder of
    crawlfleet. Empty when they may."""
    if not settings.worker.sinks_dir:
        return ""
    folder = sinks_dir(settings)
    data = Path(os.path.normpath(data_dir(settings).absolute()))
    code = Path(os.path.normpath(code_dir(settings).absolute()))
    output = Path(os.path.normpath(output_dir(settings).absolute()))
    kept = next((each for each in (data, output, code) if each.is_relative_to(folder)), None)
    if kept is not None:
        return f"tasks could write into {kept}, which is crawlfleet's own. Name a folder beside it"
    inside = next((each for each in (output, code, data) if folder.is_relative_to(each)), None)
    if inside is not None and folder != data / SINKS_NAME:
        return f"it lies in {inside}, which is crawlfleet's own. Name a folder beside it"
    return ""


def store_url(settings: Settings) -> str:
    """Return the URL of the store: the setting, or a SQLite file in the data folder."""
    return settings.store or f"sqlite:///{data_dir(settings) / STORE_NAME}"


def _find_file(
    asked: Path | None, environ: Mapping[str, str], cwd: Path, home: Path
) -> Path | None:
    named = environ.get("CRAWLFLEET_CONFIG", "")
    for path, origin in ((asked, "flag --config"), (named, "environment CRAWLFLEET_CONFIG")):
        if path:
            found = Path(_absolute(str(path), cwd=cwd, home=home))
            if not found.is_file():
                raise ConfigError(
                    f"there is no configuration file {found} (from {origin}): "
                    "make it, or name another"
                )
            return found
    usual = (cwd / FILE_NAME, home / ".config" / "crawlfleet" / FILE_NAME)
    return next((path for path in usual if path.is_file()), None)


def _from_file(path: Path, cwd: Path, problems: list[str]) -> dict[str, _Given]:
    shown = str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{shown} is not a TOML file: {error}") from error
    except OSError as error:
        raise ConfigError(f"{shown} cannot be read: {error.strerror}") from error
    lines = _line_numbers(text)
    found = {}
    for name, value in _flatten(table):
        line = lines.get(name)
        entry = _Given(value, f"{shown}:{line}" if line else shown)
        if name in SETTINGS:
            found[name] = entry
        elif name in _GROUPS:
            problems.append(
                _describe(name, entry, f"this is a group of settings: write them below [{name}]")
            )
        else:
            problems.append(_unknown(name, entry.origin))
    return found


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = prefix + key
        if name in _GROUPS and isinstance(value, dict):
            yield from _flatten(value, name + ".")
        else:
            yield name, value


_HEADER: Final = re.compile(r"\s*+\[([\w.\-\"'\s]++)\]\s*+(?:#.*)?$")
_KEY: Final = re.compile(r"\s*+([\w.\-\"'\s]++)=")


def _line_numbers(text: str) -> dict[str, int]:
    """Map each name to the line that sets it, judged from the lines alone."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _bare(header[1]) + "."
            lines.setdefault(table[:-1], number)
        elif key := _KEY.match(line):
            lines.setdefault(table + _bare(key[1]), number)
    return lines


def _bare(name: str) -> str:
    return ".".join(part.strip(" \t\"'") for part in name.split("."))


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> dict[str, _Given]:
    """Return the settings that the environment sets. An empty variable is not set."""
    found = {}
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX) or not text:
            continue
        if setting := _VARIABLES.get(variable):
            found[setting.name] = _Given(text, f"environment {variable}", textual=True)
        elif variable not in NOT_SETTINGS and not variable.startswith(FOREIGN_PREFIXES):
            near = get_close_matches(variable, [*_VARIABLES, *NOT_SETTINGS], n=1)
            # The value is left out: it may be a secret under a misspelt name.
            problems.append(
                f"{variable} (from environment {variable}) is not a setting: "
                + (f"did you mean {near[0]}?" if near else "unset it")
            )
    return found


def _from_flags(flags: Mapping[str, Any], problems: list[str]) -> dict[str, _Given]:
    found = {}
    for name, value in flags.items():
        if value is None:
            continue
        origin = "flag " + _FLAGS.get(name, "--" + name.rpartition(".")[2].replace("_", "-"))
        if name in SETTINGS:
            plain = str(value) if isinstance(value, Path) else value
            found[name] = _Given(plain, origin, textual=True)
        else:
            problems.append(_unknown(name, origin))
    return found


def _convert(setting: Setting, entry: _Given) -> Any:
    """Convert the value to the setting's type; raises `ValueError` that names the expected one."""
    value = entry.value
    if entry.textual and isinstance(value, str) and _is_composite(setting):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError as error:
            raise ValueError(f"expected JSON: {error}") from None
    try:
        result = msgspec.convert(value, setting.type, strict=not entry.textual)
    except msgspec.ValidationError as error:
        raise ValueError(str(error).replace("Expected", "expected")) from None
    if isinstance(result, float) and not math.isfinite(result):
        raise ValueError("expected a finite number")
    if setting.name.startswith("worker.resources.") and result < 0:
        raise ValueError("expected a number >= 0")
    return result


def _plain(setting: Setting) -> inspect.Type:
    info = inspect.type_info(setting.type)
    return info.type if isinstance(info, inspect.Metadata) else info


def _is_composite(setting: Setting) -> bool:
    return isinstance(_plain(setting), inspect.DictType | inspect.ListType | inspect.VarTupleType)


def _contradictions(values: Mapping[str, Any], given: Mapping[str, _Given]) -> list[str]:
    """Values that are fine alone, but not together."""

    def value(name: str) -> Any:
        return values.get(name, SETTINGS[name].default)

    complaints = [
        _describe(name, given[name], f"{error}. Use such as 10.0.0.0/8, 203.0.113.7 or fd00::/8")
        for name in ("server.allow_clients", "server.trusted_proxies")
        if (error := _network_error(value(name)))
    ]
    complaints += [
        _describe(name, given[name], f"there is no certificate for it. Set {needed}, too")
        for name, needed in (
            ("server.tls_key", "server.tls_cert"),
            ("server.tls_client_ca", "server.tls_cert"),
            ("server.announce", "server.tls_cert"),
            ("worker.tls_key", "worker.tls_cert"),
        )
        if value(name) and not value(needed)
    ]
    timeout, interval = value("session.timeout_s"), value("session.heartbeat_interval_s")
    if timeout > 2 * interval:
        return complaints
    culprit = (
        "session.timeout_s" if "session.timeout_s" in given else "session.heartbeat_interval_s"
    )
    return [
        *complaints,
        _describe(
            culprit,
            given[culprit],
            f"a node would be given up after {timeout:g} s of silence, though it speaks only every "
            f"{interval:g} s. Make session.timeout_s more than twice "
            "session.heartbeat_interval_s",
        ),
    ]


def _network_error(texts: tuple[str, ...]) -> str:
    for text in texts:
        try:
            ip_network(text.strip(), strict=False)
        except ValueError:
            return f"{text!r} is not an address or network"
    return ""


def _describe(name: str, entry: _Given, complaint: str) -> str:
    return f"{name} = {entry.value!r} (from {entry.origin}): {complaint}"


def _unknown(name: str, origin: str) -> str:
    return f"{name} (from {origin}) is not a setting: {_suggest(name)}"


def _suggest(name: str) -> str:
    known = [*SETTINGS, *sorted(_GROUPS)]
    leaf = name.rpartition(".")[2]
    near = get_close_matches(name, known, n=1, cutoff=0.7)
    near += [other for other in SETTINGS if other.rpartition(".")[2] == leaf]
    return f"did you mean {near[0]}?" if near else "remove it"


def _remedy(setting: Setting) -> str:
    """Describe the values that a setting accepts, and its default."""
    info = _plain(setting)
    wanted = "a value"
    match info:
        case inspect.BoolType():
            wanted = "true or false"
        case inspect.LiteralType():
            wanted = "one of " + ", ".join(str(value) for value in info.values)
        case inspect.IntType() | inspect.FloatType():
            noun = "a whole number" if isinstance(info, inspect.IntType) else "a number"
            limits = (("from", info.ge), ("above", info.gt), ("to", info.le), ("below", info.lt))
            wanted = " ".join([noun, *(f"{word} {n:g}" for word, n in limits if n is not None)])
        case inspect.StrType():
            wanted = "a text" if not info.min_length else "a text that is not empty"
        case inspect.DictType():
            wanted = "a table (a JSON object in the environment)"
        case inspect.ListType() | inspect.VarTupleType():
            wanted = "a list (a JSON array in the environment)"
    default = msgspec.json.encode(setting.default).decode()
    return f"Set it to {wanted}, or leave it out for the default, {default}"


def _absolute(path: str, *, cwd: Path, home: Path) -> str:
    if not path:
        return str(default_data_dir(home))
    if path == "~" or path.startswith("~/"):
        return str(home / path[2:])
    return str(cwd / path)


def _build(values: Mapping[str, Any]) -> Settings:
    """The settings with `values` in place of the defaults."""
    tables: dict[str, Any] = {}
    for name, value in values.items():
        *groups, leaf = name.split(".")
        table = tables
        for group in groups:
            table = table.setdefault(group, {})
        table[leaf] = value
    return _fill(Settings(), tables)


def _fill(struct: S, table: Mapping[str, Any]) -> S:
    changes = {}
    for key, value in table.items():
        old = getattr(struct, key)
        changes[key] = _fill(old, value) if isinstance(old, msgspec.Struct) else value
    return msgspec.structs.replace(struct, **changes)
