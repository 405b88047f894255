"""Masks the secrets of an execution in its output, logs and results.

The agent does it, which foreign code cannot reach. A value is found as it is and in the forms in
which programs print it by accident: as JSON, as a Python literal, in a URL, in base64, line by
line, and cut off where a line or a text was. Code that wants to reveal a secret can write it
backwards; no mask helps against that, but a cell with limited network access does.
"""

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus

import msgspec

from crawlfleet.core.text.nesting import MAX_NESTING, is_too_deep
from crawlfleet.model.log import LogLevel
from crawlfleet.model.task import JSON_NULL, ErrorClass, TaskError
from crawlfleet.model.wire.node_protocol import OrderAnswer
from crawlfleet.ports.execution import Attempt, Observer

LEAST_CHARS: Final = 8
"""Minimum length of a part of a secret that is searched for by itself."""
LEAST_REST: Final = 4
"""Minimum length of the rest of a secret that is masked where a text was cut."""

_TOO_DEEP: Final = "it is nested too deep"


class Unsearchable(Exception):
    """A value cannot be searched for secrets, for instance because it is nested too deep."""


class SecretMask:
    """Replaces the values of secrets by their names."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        found: dict[str, str] = {}
        for name, value in secrets.items():
            for form in _forms(value):
                found.setdefault(form, f"[secret {name}]")
        # The longest first: what is a part of another must not spoil it.
        self._forms = sorted(found.items(), key=lambda each: len(each[0]), reverse=True)

    def text(self, text: str) -> str:
        """Return the text with all secrets masked."""
        for form, name in self._forms:
            if len(form) <= len(text):
                text = text.replace(form, name)
        for form, name in self._forms:
            if len(text) >= LEAST_CHARS and text in form:
                return name
            text = _without_begun(text, form, name)
            text = _without_ended(text, form, name)
        return text

    def value(self, value: Any) -> Any:
        """Return a JSON value with the secrets masked in all of its texts. Raises
        `Unsearchable`."""
        return self._value(value, 0)

    def _value(self, value: Any, depth: int) -> Any:
        if depth > MAX_NESTING:
            raise Unsearchable(_TOO_DEEP)
        match value:
            case str():
                return self.text(value)
            case dict():
                return {
                    self._value(key, depth): self._value(each, depth + 1)
                    for key, each in value.items()
                }
            case list() | tuple():
                return [self._value(each, depth + 1) for each in value]
            case _:
                return value

    def raw(self, data: msgspec.Raw) -> msgspec.Raw:
        """Return JSON with the secrets masked. Raises `Unsearchable`."""
        if is_too_deep(bytes(data)):
            raise Unsearchable(_TOO_DEEP)
        try:
            before = msgspec.json.decode(data)
            after = self.value(before)
            return data if after == before else msgspec.Raw(msgspec.json.encode(after))
        except msgspec.DecodeError as error:
            raise Unsearchable(self.text(str(error))) from None

    def attempt(self, attempt: Attempt) -> Attempt:
        """Return the outcome of an execution with its secrets masked. It becomes a failure if its
        result cannot be searched for them."""
        data, error = attempt.data, attempt.error
        if error is not None:
            error = msgspec.structs.replace(
                error, message=self.text(error.message), details=self.text(error.details)
            )
        try:
            data = None if data is None else self.raw(data)
        except Unsearchable as why:
            data = None
            error = TaskError(
                error_class=ErrorClass.ERROR,
                message=f"the result cannot be searched for secrets: {why}",
            )
        return msgspec.structs.replace(attempt, data=data, error=error)


class MaskingObserver:
    """An `Observer` that masks secrets in everything it passes on, except items: the output of the
    code is passed on as it is."""

    def __init__(self, observer: Observer, mask: SecretMask) -> None:
        self._observer = observer
        self._mask = mask
        self.started = observer.started
        self.progress = observer.progress
        self.request = observer.request

    def log(self, message: str, level: LogLevel, fields: Mapping[str, Any]) -> None:
        try:
            masked = self._mask.value({**fields})
        except Unsearchable as why:
            masked = {"left_out": f"the fields cannot be searched for secrets: {why}"}
        self._observer.log(self._mask.text(message), level, masked)

    def figures(self, figures: dict[str, Any]) -> None:
        # Those that cannot be searched are passed over: newer ones come.
        with contextlib.suppress(Unsearchable):
            self._observer.figures(self._mask.value(figures))

    def answer(self, answer: OrderAnswer) -> None:
        try:
            data, error = self._mask.raw(answer.data), self._mask.text(answer.error)
        except Unsearchable as why:
            data, error = JSON_NULL, f"the answer cannot be searched for secrets: {why}"
        self._observer.answer(msgspec.structs.replace(answer, data=data, error=error))


def _forms(value: str) -> Iterator[str]:
    """Yield the forms in which a value may stand in a text."""
    whole = [value, *(line.strip() for line in value.splitlines())]
    for text in [each for each in dict.fromkeys(whole) if len(each) >= LEAST_CHARS]:
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield repr(text)[1:-1]
        yield repr(text.encode())[2:-1]
        yield quote(text, safe="")
        yield quote(text)
        yield quote_plus(text)
        yield from _in_base64(text.encode())


def _in_base64(data: bytes) -> Iterator[str]:
    """Yield the base64 digits of the data for each offset at which it may begin in the encoded
    bytes, such as after a name and a colon. Digits that depend on neighbouring bytes are left
    out."""
    for before in range(3):
        coded = base64.b64encode(bytes(before) + data)
        digits = coded.decode().rstrip("=")
        first = -(-before * 8 // 6)
        last = (before + len(data)) * 8 // 6
        core = digits[first:last]
        if len(core) >= LEAST_CHARS:
            yield core
            yield core.translate(_URL_SAFE)


_URL_SAFE: Final = str.maketrans("+/", "-_")


def _without_begun(text: str, form: str, name: str) -> str:
    """Mask a secret whose end was cut off at the end of the text."""
    at = text.find(form[:LEAST_REST], max(len(text) - len(form) + 1, 0))
    while at >= 0:
        if form.startswith(text[at:]):
            return text[:at] + name
        at = text.find(form[:LEAST_REST], at + 1)
    return text


def _without_ended(text: str, form: str, name: str) -> str:
    """Mask a secret whose beginning was cut off at the start of the text."""
    end = form[-LEAST_REST:]
    at = text.rfind(end, 0, len(form) - 1)
    while at >= 0:
        if form.endswith(text[: at + len(end)]):
            return name + text[at + len(end) :]
        at = text.rfind(end, 0, at + len(end) - 1)
    return text
