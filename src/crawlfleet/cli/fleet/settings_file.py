"""A settings file to begin with: every setting with its description, commented out."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from crawlfleet import config
from crawlfleet.model.settings import Settings

WIDTH: Final = 98
HEAD: Final = """\
# Settings of crawlfleet. A line that begins with `# name =` shows a default: take the `#` away to
# change it. The environment (CRAWLFLEET_SERVER_PORT=9000) and flags come after this file and win.
"""


def grouped() -> Iterator[tuple[str, str, list[config.Setting]]]:
    """All settings: of each group its dotted name, what it is about, and what can be set there.
    The first has neither name nor title."""
    titles = dict(_titles(Settings))
    groups: dict[str, list[config.Setting]] = {}
    for setting in config.SETTINGS.values():
        groups.setdefault(setting.name.rpartition(".")[0], []).append(setting)
    for name, settings in groups.items():
        yield name, titles.get(name, ""), settings


def _titles(cls: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield each group of settings: its dotted name and its description."""
    for field in msgspec.structs.fields(cls):
        if isinstance(field.default, msgspec.Struct):
            kind = type(field.default)
            about = config.described(field.type) or (kind.__doc__ or "").partition("\n")[0]
            yield prefix + field.name, about
            yield from _titles(kind, f"{prefix}{field.name}.")


def render(*, data_dir: str = "") -> str:
    """The text of a file in which only `data_dir` is set, if it is given."""
    parts = [HEAD]
    for name, title, settings in grouped():
        if name:
            parts.append("\n".join([*_comment(title), f"[{name}]"]) + "\n")
        parts += [
            _entry(setting, data_dir if setting.name == "data_dir" else "") for setting in settings
        ]
    return "\n".join(parts)


def _entry(setting: config.Setting, value: str) -> str:
    leaf = setting.name.rpartition(".")[2]
    lines = list(_comment(setting.description)) if setting.description else []
    if value:
        lines.append(f"{leaf} = {_toml(value)}")
    elif setting.default is None:
        lines.append(f"# {leaf} is not set")
    else:
        lines.append(f"# {leaf} = {_toml(setting.default)}")
    return "\n".join(lines) + "\n"


def _comment(text: str) -> Iterator[str]:
    line = "#"
    for word in text.split():
        if len(line) + len(word) >= WIDTH:
            yield line
            line = "#"
        line += f" {word}"
    yield line


def _toml(value: Any) -> str:
    """A value as TOML writes it; JSON does the same for all but tables."""
    if isinstance(value, dict):
        pairs = (f"{_toml(str(key))} = {_toml(each)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return msgspec.json.encode(value).decode()
