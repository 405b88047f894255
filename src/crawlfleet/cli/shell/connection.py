"""Finds the master of a command: flags, then the environment, then the file of a running fleet.

`up` and `master` leave `connection.json` in their data folder while they run. Its key is sent to no
other address than its own.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from crawlfleet import config
from crawlfleet.cli.shell.access import Access
from crawlfleet.errors import ConfigError, MasterUnreachable
from crawlfleet.listening import complete_url, url_of
from crawlfleet.model.settings import Settings
from crawlfleet.private_file import write_private
from crawlfleet.tls import Trust, pin_of

FILE_NAME: Final = "connection.json"


class SavedConnection(msgspec.Struct, frozen=True, kw_only=True):
    """A master's address and the key for it; `pid` is 0 when the process is not known."""

    url: str
    key: str
    pid: int = 0
    trust: Trust = Trust()
    """The certificates that the command trusts at this address."""


def way_to_own(settings: Settings, *, port: int, key: str) -> SavedConnection:
    """Return the connection from this machine to the master of this process, or of one that it
    starts."""
    server, worker = settings.server, settings.worker
    pin = pin_of(server.tls_cert) if server.tls_cert else ""
    return SavedConnection(
        url=url_of(server.host, port, tls=bool(pin), anywhere="127.0.0.1"),
        key=key,
        pid=os.getpid(),
        # Of this machine's own master the key is known: its certificate may name any machine.
        trust=Trust(cert=worker.tls_cert, key=worker.tls_key, pin=pin),
    )


@contextlib.contextmanager
def left_behind(folder: Path, connection: SavedConnection) -> Iterator[None]:
    """Keep a connection file in the folder until the block ends, unless the file of a living master
    is there: `up` leaves its own for the master that it starts."""
    earlier = read_connection(folder)
    if earlier is None or not is_alive(earlier.pid):
        write_connection(folder, connection)
    try:
        yield
    finally:
        if read_connection(folder) == connection:
            remove_connection(folder)


def write_connection(folder: Path, connection: SavedConnection) -> None:
    """Write the connection file of a running master, readable by its owner only."""
    write_private(folder / FILE_NAME, msgspec.json.encode(connection) + b"\n")


def read_connection(folder: Path) -> SavedConnection | None:
    """Read the connection file of a master in its data folder; `None` when there is none. Raises
    `ConfigError` when it cannot be read."""
    file = folder / FILE_NAME
    try:
        return msgspec.json.decode(file.read_bytes(), type=SavedConnection)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(
            f"{file} cannot be read: {error}; remove it, or give --url and --key"
        ) from error


def remove_connection(folder: Path) -> None:
    """Remove the connection file of a master that has ended. May be called twice."""
    with contextlib.suppress(OSError):
        (folder / FILE_NAME).unlink(missing_ok=True)


def find_connection(
    access: Access, *, environ: Mapping[str, str], cwd: Path, home: Path
) -> SavedConnection:
    """Find the master that the flags, the environment or a connection file name. Raises
    `MasterUnreachable` when none of them does, `ConfigError` without a key for it."""
    url = complete_url(access.url or environ.get("CRAWLFLEET_URL") or "")
    key = access.key or environ.get("CRAWLFLEET_KEY") or environ.get("CRAWLFLEET_ADMIN_KEY") or ""
    trust = _trust(access, environ)
    if url and key:
        return SavedConnection(url=url, key=key, trust=trust)
    loaded = config.load(environ=environ, flags={"data_dir": access.data}, cwd=cwd, home=home)
    folder = config.data_dir(loaded.settings)
    left = read_connection(folder)
    if url and (left is None or left.url != url):
        raise ConfigError(
            f"no key for {url}: give one with --key or CRAWLFLEET_KEY"
            " (a fleet's own is in `admin.key` in its data folder)"
        )
    if left is None:
        raise MasterUnreachable(
            f"no fleet is running with its data in {folder}; name another folder with --data, or "
            "its address and key with --url and --key"
        )
    if trust != Trust():
        left = msgspec.structs.replace(left, trust=trust)
    return msgspec.structs.replace(left, key=key or left.key)


def _trust(access: Access, environ: Mapping[str, str]) -> Trust:
    return Trust(
        ca=str(access.ca or environ.get("CRAWLFLEET_CA") or ""),
        cert=str(access.cert or environ.get("CRAWLFLEET_CERT") or ""),
        key=str(access.cert_key or environ.get("CRAWLFLEET_CERT_KEY") or ""),
    )


def is_alive(pid: int) -> bool:
    """Return whether a process with this number exists."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
