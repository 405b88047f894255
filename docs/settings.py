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

Everything that can be set, and what holds when nothing is. \
[Where settings come from](../guides/cli.md#settings) says how; `crawlfleet config show` says \
which hold on a machine and why, `crawlfleet config master` which a running master works by, and \
`crawlfleet init` writes a file with all of them. Made from the program by `python \
docs/settings.py`.
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
