"""Search in logs: selects lines by text, level and time.

The searched text is the line as people see it: its message, then each field as `name=value`.
Regular expressions are those of RE2, whose time grows only with the text, and of bounded size.
"""

from typing import Any, Final

import msgspec

from crawlfleet.core.text.patterns import compile_pattern, pattern_problem
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.model.log import LogLevel, LogLine

LARGEST_PROGRAM: Final = 1_000
"""Size limit of a compiled expression; the worst cost of a byte of text grows with it."""

_encode: Final = msgspec.json.Encoder().encode


class LineFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter of log lines; by default it accepts all."""

    least: LogLevel = LogLevel.DEBUG
    since: float | None = None
    until: float | None = None
    text: str = ""
    """Text that a line must contain, in any case; stored in lower case. Empty: any line."""
    pattern: Any = None
    """Compiled expression that a line must match somewhere, used instead of `text`."""

    @property
    def is_search(self) -> bool:
        """True if each line has to be tested, not only its level."""
        return bool(
            self.text
            or self.pattern is not None
            or self.since is not None
            or self.until is not None
        )

    def takes(self, line: LogLine) -> bool:
        """Return whether the filter accepts the line; the store has already selected by level."""
        if self.since is not None and line.at < self.since:
            return False
        if self.until is not None and line.at >= self.until:
            return False
        if self.pattern is not None:
            found = self.pattern.search(shown(line).encode(errors="replace"))
            return found is not None
        return not self.text or self.text in shown(line).lower()


ALL: Final = LineFilter()


def make_filter(
    text: str,
    *,
    is_regex: bool,
    least: LogLevel,
    since: float | None = None,
    until: float | None = None,
) -> LineFilter:
    """Return the filter. Raises `InvalidRequest` when the text should be an expression and is not
    valid."""
    if not (is_regex and text):
        return LineFilter(least=least, since=since, until=until, text=text.lower())
    return LineFilter(least=least, since=since, until=until, pattern=_compiled(text))


def shown(line: LogLine) -> str:
    """Return a line as people see it, without its time and level."""
    if not line.fields:
        return line.message
    fields = (f"{name}={_value(value)}" for name, value in line.fields.items())
    return "  ".join((line.message, *fields))


def _value(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


def _compiled(text: str) -> Any:
    if problem := pattern_problem(text.encode()):
        raise _bad(
            problem,
            "use RE2's syntax (no look-around, no back-references), or leave out regex=true to "
            "search for the text as it is",
            text,
        )
    pattern = compile_pattern(text.encode())
    if pattern.programsize > LARGEST_PROGRAM:
        raise _bad("is too large an expression", "use smaller counts in braces", text)
    return pattern


def _bad(message: str, remedy: str, text: str) -> InvalidRequest:
    return InvalidRequest(
        [FieldProblem(field="q", message=message, remedy=remedy, value=text[:100])]
    )
