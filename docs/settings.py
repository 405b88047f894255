"""Writes the list of all settings, from the settings themselves; `make docs` runs it."""

import re
from pathlib import Path
from typing import Any, Final

import msgspec

from crawlfleet import config
from crawlfleet.cli.fleet.settings_file import grouped

PAGE: Final = Path(__file__).parent / "reference" / "settings.md"
HEAD: Final = """\
# Settings

All settings and their defaults. [Settings](../guides/cli.md#settings) of the command line \
describes their sources. `crawlfleet config show` prints the settings of a machine with the \
source of each, `crawlfleet config master` those of a running master, and `crawlfleet init` \
writes a file with all of them. `python docs/settings.py` writes this page.
"""
TABLE: Final = "| name | default | |\n|---|---|---|\n"


def render() -> str:
    """The whole page."""
    parts = [HEAD]
    for name, title, settings in grouped():
        parts.append(f"## `[{name}]`\n\n{title}\n" if name else "## At the top of the file\n")
        parts.append(TABLE + "".join(map(_row, settings)))
    return "\n".join(parts)


def _row(setting: config.Setting) -> str:
    text = re.sub(r"\s+", " ", setting.description).replace("|", "\\|")
    return f"| `{setting.name}`<br>`{setting.variable}` | {_shown(setting.default)} | {text} |\n"


def _shown(value: Any) -> str:
    if value is None or value in ("", (), {}):
        return "–"
    return f"`{value if isinstance(value, str) else msgspec.json.encode(value).decode()}`"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
