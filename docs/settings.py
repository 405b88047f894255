"""Writes the list of all settings, from the settings themselves; `make docs` runs it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from crawlfleet import config
from crawlfleet.model.settings import Settings

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
    titles = dict(_titles(Settings))
    groups: dict[str, list[config.Setting]] = {}
    for setting in config.SETTINGS.values():
        groups.setdefault(setting.name.rpartition(".")[0], []).append(setting)
    parts = [HEAD]
    for name, settings in groups.items():
        parts.append(
            f"## `[{name}]`\n\n{titles[name]}\n" if name else "## At the top of the file\n"
        )
        parts.append(TABLE + "".join(map(_row, settings)))
    return "\n".join(parts)


def _row(setting: config.Setting) -> str:
    text = re.sub(r"\s+", " ", setting.description).replace("|", "\\|")
    return f"| `{setting.name}`<br>`{setting.variable}` | {_shown(setting.default)} | {text} |\n"


def _shown(value: Any) -> str:
    if value is None or value in ("", (), {}):
        return "–"
    return f"`{value if isinstance(value, str) else msgspec.json.encode(value).decode()}`"


def _titles(cls: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, str]]:
    for field in msgspec.structs.fields(cls):
        if isinstance(field.default, msgspec.Struct):
            kind = type(field.default)
            yield prefix + field.name, (kind.__doc__ or "").partition("\n")[0]
            yield from _titles(kind, f"{prefix}{field.name}.")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
