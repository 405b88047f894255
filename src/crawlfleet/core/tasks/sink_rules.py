"""Sinks of a task: where they may write and connect. These are pure decisions, made at submission
and again on the node.

A task names files by their path below one folder of the node, with the extension of their format,
so that lines that a site controls never land in a program or a key file. The address of a database
comes from the URL alone.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from crawlfleet.model.crawl.parameters import PostgresAddress, SinkSpec

ENDINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "jsonl": (".jsonl", ".ndjson"),
    "csv": (".csv",),
    "warc": (".warc",),
}
PACKED: Final = ("", ".gz", ".zst")
TABLE_ENDINGS: Final = (".db", ".sqlite", ".sqlite3")
TABLE: Final = "table"
FLEET: Final = "fleet:"
SQLITE: Final = "sqlite"
POSTGRES: Final = ("postgresql", "postgres")
PARAMETERS: Final = ("table", "sslmode")
"""Allowed parameters of a PostgreSQL URL. Others make the node read its own files, or connect
elsewhere."""
SSL_MODES: Final = ("disable", "prefer", "require", "verify-ca", "verify-full")
POSTGRES_PORT: Final = 5432
_HOST: Final = re.compile(r"\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9.])?)")
_PLUGIN: Final = re.compile(r"[a-z][a-z0-9_]*")


class SinkRefusal(NamedTuple):
    """Refusal of a place that a task may not write to, with its reason."""

    message: str
    remedy: str


def problem_of(spec: SinkSpec) -> SinkRefusal | None:
    """Return the problem of a sink, wherever the task will run; `None` when it has none."""
    url, format = spec.url, spec.format
    if url.startswith(FLEET):
        return None
    scheme = scheme_of(url)
    if scheme in (SQLITE, *POSTGRES):
        if format not in (None, TABLE):
            return SinkRefusal(
                f"is a table, and not {format}", "leave `format` out, or name a file"
            )
        if scheme == SQLITE:
            found = sqlite_path(url)
            return found if isinstance(found, SinkRefusal) else _name_refusal(found, TABLE_ENDINGS)
        address = postgres_address(url)
        return address if isinstance(address, SinkRefusal) else None
    if scheme is None:
        if format == TABLE:
            return SinkRefusal(
                "is a path, and no database", "use sqlite:///shop.db, or a postgresql:// URL"
            )
        return _name_refusal(url.removeprefix("file://"), _endings_of(format))
    if format in (*ENDINGS, TABLE):
        return SinkRefusal(
            f"is of the scheme {scheme!r}, and not {format}", "name a path, or leave `format` out"
        )
    if not _PLUGIN.fullmatch(scheme):
        return SinkRefusal("is of no known kind", "name a path, or a sqlite or postgresql URL")
    return None


def scheme_of(url: str) -> str | None:
    """Return the scheme of a URL; `None` for a path."""
    scheme, separator, _ = url.partition("://")
    return None if not separator or scheme == "file" else scheme


def path_below(folder: str, path: str) -> str | SinkRefusal:
    """Return the path that a task names, relative to the node's folder for such files, or the
    refusal."""
    if (refusal := _path_refusal(path)) is not None:
        return refusal
    parts = _parts(path)
    if path.startswith("/"):
        top = _parts(folder)
        if parts[: len(top)] != top or len(parts) == len(top):
            return SinkRefusal(
                "is not below the folder that this node has for sinks of tasks",
                "name a path that is relative to that folder, such as items.jsonl, or set "
                "`worker.sinks_dir` at the node",
            )
        parts = parts[len(top) :]
    return "/".join(parts)


def sqlite_path(url: str) -> str | SinkRefusal:
    """Return the path of a SQLite file, relative or absolute, or the refusal; only `table` may
    follow it."""
    place, _, query = url.partition("?")
    path = unquote(place.removeprefix("sqlite://"))
    if not path.startswith("/") or path == "/":
        return SinkRefusal("names no file", "use sqlite:/// and the path of the file")
    if unknown := [name for name, _ in parse_qsl(query, keep_blank_values=True) if name != TABLE]:
        return SinkRefusal(f"has a parameter {unknown[0][:64]!r}", "use `table` alone")
    return path.removeprefix("/")


def postgres_address(url: str) -> PostgresAddress | SinkRefusal:
    """Return the database that a PostgreSQL URL names, or the refusal; files and variables of the
    connecting machine have no influence."""
    place, _, query = url.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if name not in PARAMETERS:
            return SinkRefusal(
                f"has a parameter {name[:64]!r}, which tasks may not use",
                f"use {' and '.join(PARAMETERS)} alone, and name host, user and database in the "
                "URL itself: postgresql://user:${secret:NAME}@host:5432/database?table=items",
            )
    sslmode = given.get("sslmode", "prefer")
    if sslmode not in SSL_MODES:
        return SinkRefusal("has an unknown `sslmode`", f"use one of {', '.join(SSL_MODES)}")
    authority, _, database = place.partition("://")[2].partition("/")
    credentials, _, hosts = authority.rpartition("@")
    user, _, password = credentials.partition(":")
    found = tuple(_hosts(hosts))
    if not found or None in found:
        return SinkRefusal(
            "names no host that can be looked up", "use postgresql://user@host:5432/database"
        )
    if not user or not database or "/" in database:
        return SinkRefusal(
            "does not name the user and the database", "use postgresql://user@host:5432/database"
        )
    return PostgresAddress(
        hosts=tuple(each for each in found if each is not None),
        user=unquote(user),
        password=unquote(password),
        database=unquote(database),
        sslmode=sslmode,  # type: ignore[arg-type]
    )


def _hosts(text: str) -> Iterator[tuple[str, int] | None]:
    """Yield each host with its port; `None` for an invalid one."""
    for each in text.split(","):
        match = _HOST.match(each)
        rest = each[match.end() :] if match else ""
        port = rest.removeprefix(":") if rest else str(POSTGRES_PORT)
        if match is None or (rest and not rest.startswith(":")) or not _is_port(port):
            yield None
        else:
            yield match[1] or match[2], int(port)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536


def _endings_of(format: str | None) -> tuple[str, ...]:
    if format is None:
        endings = tuple(ending for each in ENDINGS.values() for ending in each)
    else:
        endings = ENDINGS.get(format, (f".{format}",))
    return tuple(ending + packed for ending in endings for packed in PACKED)


def _name_refusal(path: str, endings: tuple[str, ...]) -> SinkRefusal | None:
    """Return why a task may not write a file of that name, whichever folder it is below."""
    if (refusal := _path_refusal(path)) is not None:
        return refusal
    name = _parts(path)[-1].lower()
    if any(name.endswith(each) and len(name) > len(each) for each in endings):
        return None
    plain = [each for each in endings if not each.endswith(PACKED[1:])]
    return SinkRefusal(
        "has not the ending of its format",
        f"end it in {' or '.join(plain)}"
        + (f" (also with {' or '.join(PACKED[1:])})" if len(plain) < len(endings) else ""),
    )


def _path_refusal(path: str) -> SinkRefusal | None:
    parts = _parts(path)
    if not parts or path.endswith("/") or "\0" in path:
        return SinkRefusal("names no file", "name one, such as items.jsonl")
    if ".." in parts:
        return SinkRefusal(
            "leads out of its folder by `..`", "name a path that is relative to the node's folder"
        )
    return None


def _parts(path: str) -> list[str]:
    return [each for each in path.split("/") if each not in ("", ".")]
