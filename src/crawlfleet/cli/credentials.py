"""The admin key of a data folder: made once, kept in a file that only its owner can read."""

import os
import secrets
from pathlib import Path
from typing import Final

from crawlfleet.errors import ConfigError
from crawlfleet.private_file import write_private

SHORTEST: Final = 16


def admin_key(folder: Path) -> str:
    """The preset key (`CRAWLFLEET_ADMIN_KEY`), else the folder's own, made on first use."""
    preset = os.environ.get("CRAWLFLEET_ADMIN_KEY")
    if preset:
        if len(preset) < SHORTEST:
            raise ConfigError(
                f"CRAWLFLEET_ADMIN_KEY has {len(preset)} characters; use at least {SHORTEST}, "
                "or unset it to have one made"
            )
        return preset
    file = folder / "admin.key"
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        key = secrets.token_hex(32)
        write_private(file, f"{key}\n".encode())
        return key
