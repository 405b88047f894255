"""Parses arguments into values: `key=value`, JSON, `@file` and `-`."""

import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

STANDARD_INPUT: Final = "-"
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)\Z")
_UNITS_S: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}

Pairs = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--parameter",
        metavar="KEY=VALUE",
        help="A parameter; the value is JSON if it can be, else text. May be repeated.",
    ),
]
ParameterSource = Annotated[
    str | None,
    typer.Option(
        "--parameters",
        metavar="JSON|@FILE|-",
        help="All parameters as a JSON object: as text, in a file, or from standard input.",
    ),
]


ExpectationSource = Annotated[
    str | None,
    typer.Option(
        "--expect",
        metavar="JSON|@FILE|-",
        help="What the items should be like: as text, in a file of YAML or JSON, or from standard "
        "input.",
    ),
]


def parse_expectations(source: str | None) -> dict[str, Any] | None:
    """Parse the argument of `--expect`; `None` when it is not given."""
    if source is None or not source.startswith("@"):
        return None if source is None else parse_object(source, "--expect")
    from crawlfleet.cli.shell.workflow_file import read_yaml  # dear, and few need it

    read = read_yaml(source[1:])
    if not isinstance(read, dict):
        raise typer.BadParameter("holds no object", param_hint=source)
    return read


def parse_pairs(pairs: Iterable[str] | None, flag: str) -> dict[str, Any]:
    """`key=value` pairs; a value is JSON if it can be read as JSON, else text."""
    values: dict[str, Any] = {}
    for pair in pairs or ():
        name, separator, text = pair.partition("=")
        if not separator or not name.strip():
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=flag)
        values[name.strip()] = parse_value(text)
    return values


def parse_texts(pairs: Iterable[str] | None, flag: str) -> dict[str, str]:
    """`key=value` pairs; a value is the text that it is."""
    values: dict[str, str] = {}
    for pair in pairs or ():
        name, separator, text = pair.partition("=")
        if not separator or not name.strip():
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint=flag)
        values[name.strip()] = text
    return values


def parse_amounts(pairs: Iterable[str] | None, flag: str) -> dict[str, float]:
    """`key=number` pairs."""
    amounts = parse_pairs(pairs, flag)
    for name, amount in amounts.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise typer.BadParameter(f"{name}={amount} is not a number", param_hint=flag)
    return amounts


def parse_span(text: str, flag: str) -> float:
    """Seconds in `90s`, `15m`, `24h`, `30d`; a bare number is seconds."""
    found = _SPAN.match(text.strip())
    if not found or not float(found[1]):
        raise typer.BadParameter(
            f"{text!r} is not a time such as 90s, 15m, 24h or 30d", param_hint=flag
        )
    return float(found[1]) * _UNITS_S[found[2] or "s"]


def parse_instant(text: str, flag: str) -> datetime:
    """An instant in ISO 8601, a time ago such as `24h`, or `now`; without a zone it is local."""
    if text == "now":
        return datetime.now(UTC)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = datetime.now(UTC) - timedelta(seconds=parse_span(text, flag))
    return at.astimezone(UTC)


def parse_value(text: str) -> Any:
    """The JSON value that the text spells, or the text itself."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def parse_parameters(source: str | None, pairs: Iterable[str] | None) -> dict[str, Any]:
    """The JSON object that `source` names, with the pairs over it."""
    read = {} if source is None else parse_object(source, "--parameters")
    return {**read, **parse_pairs(pairs, "-p")}


def parse_object(source: str, flag: str) -> dict[str, Any]:
    """A JSON object: as text, in an `@file`, or from standard input (`-`)."""
    try:
        if source == STANDARD_INPUT:
            text = sys.stdin.read()
        elif source.startswith("@"):
            text = Path(source[1:]).expanduser().read_text(encoding="utf-8")
        else:
            text = source
        return msgspec.json.decode(text, type=dict[str, Any])
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot read {source}: {error}", param_hint=flag) from None
    except msgspec.DecodeError as error:
        raise typer.BadParameter(f"not a JSON object: {error}", param_hint=flag) from None
