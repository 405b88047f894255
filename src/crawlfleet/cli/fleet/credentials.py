"""The secrets of a data folder: made once, kept in files that only their owner can read."""

import os
import secrets
from pathlib import Path
from typing import Final

from crawlfleet.errors import ConfigError
from crawlfleet.private_file import write_private

SHORTEST: Final = 16


def admin_key(folder: Path) -> str:
    """The preset key (`CRAWLFLEET_ADMIN_KEY`), else the folder's own, made on first use."""
    return preset("CRAWLFLEET_ADMIN_KEY") or _kept(folder / "admin.key")


def join_token(folder: Path) -> str:
    """The join token of the workers that `up` starts, made on first use."""
    return _kept(folder / "join.key")


def preset(variable: str) -> str | None:
    """A secret from the environment, if it is there; too short a one is refused."""
    secret = os.environ.get(variable)
    if not secret:
        return None
    return _long_enough(secret, variable)


def kept_secret(file: Path) -> str | None:
    """Return the secret in a file; `None` without the file. Raises `ConfigError` when it is too
    short."""
    try:
        return _long_enough(file.read_text().strip(), str(file))
    except FileNotFoundError:
        return None


def _kept(file: Path) -> str:
    secret = kept_secret(file)
    if secret is None:
        secret = secrets.token_hex(32)
        write_private(file, f"{secret}\n".encode())
    return secret


def _long_enough(secret: str, origin: str) -> str:
    if len(secret) < SHORTEST:
        raise ConfigError(
            f"{origin} has {len(secret)} characters; use at least {SHORTEST}, "
            "or remove it to have one made"
        )
    return secret
