"""Outputs of `crawlfleet crawl`: the files and tables that `-o` names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote, unquote

import msgspec

from crawlfleet import plugins
from crawlfleet.crawl.output.sinks import ENDINGS, completed, name_of
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.model.crawl.parameters import SinkSpec
from crawlfleet.model.own_files import OUTPUT_NAME, PAUSES_NAME, STORE_NAME

OPTION: Final = "-o"
SQLITE: Final = "sqlite:///"
KINDS: Final = f"a file that ends in {', '.join(ENDINGS)} (also with .gz or .zst)"
TABLES: Final = "sqlite:///shop.db?table=items or postgresql://user@host/db?table=items"


class OutputFile(msgspec.Struct, frozen=True, kw_only=True):
    """One output of a crawl: a file or a table."""

    spec: SinkSpec
    """The sink, with its format; its paths are absolute."""
    path: Path | None
    """Path of a file that only this crawl writes; `None` for a table, which may be shared."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse an argument of `-o`; raises `InvalidRequest` that says what to write instead."""
        scheme, separator, rest = text.partition("://")
        if text == "-" or not text.strip():
            raise _wrong(text, "is no place that can be gone on with", f"name {KINDS}")
        if not separator or scheme == "file":
            return cls._file(rest if separator else text)
        if text.startswith(SQLITE):
            place, question, query = text.removeprefix(SQLITE).partition("?")
            absolute = quote(str(Path(unquote(place)).absolute())) if place else ""
            text = f"{SQLITE}{absolute}{question}{query}"
        spec = completed(SinkSpec(url=text))
        if spec.format not in plugins.names(plugins.SINKS):
            raise _wrong(name_of(spec), "is of no known kind", f"name {KINDS}, or {TABLES}")
        return cls(spec=spec, path=None)

    @classmethod
    def _file(cls, text: str) -> Self:
        path = Path(text).absolute()
        if path.is_symlink():
            raise _wrong(text, "is a link, and output follows none", "name the file itself")
        if path.is_dir():
            raise _wrong(text, "is a folder", "name a file in it, such as items.jsonl")
        if _is_own(path):
            raise _wrong(text, "is a file that crawlfleet keeps for itself", "name another one")
        try:
            spec = completed(SinkSpec(url=str(path)))
        except InvalidRequest as error:
            raise _wrong(
                text, "does not tell its format by its ending", f"name {KINDS}, or {TABLES}"
            ) from error
        return cls(spec=spec, path=path)

    @property
    def name(self) -> str:
        """Name of the output for messages, without possible secrets."""
        return str(self.path) if self.path else name_of(self.spec)


def outputs_of(texts: Sequence[str]) -> tuple[OutputFile, ...]:
    """Parse all outputs of a crawl; raises `InvalidRequest` when one is named twice."""
    outputs = tuple(map(OutputFile.of, texts))
    names = [output.name for output in outputs]
    for name in names:
        if names.count(name) > 1:
            raise _wrong(name, "is named twice", "name each output once")
    return outputs


def _is_own(path: Path) -> bool:
    """Return whether a file is one that a master keeps beside its store."""
    if path.name == PAUSES_NAME:
        return (path.parent / STORE_NAME).exists()
    kept = (each for each in path.parents if each.name == OUTPUT_NAME)
    return any((each.parent / STORE_NAME).exists() for each in kept)


def _wrong(value: str, message: str, remedy: str) -> InvalidRequest:
    return InvalidRequest([FieldProblem(field=OPTION, message=message, remedy=remedy, value=value)])
