"""Regular expressions that users write, run by RE2: their time grows with the text alone.

Python's engine can be kept busy for ever by a text that nearly matches; RE2 cannot, and has no
look-around and no back-references for that reason.
"""

from typing import Any, Final

REMEDY: Final = "use RE2's syntax: no look-around, no back-references"
LARGEST_BYTES: Final = 1 << 23
"""Memory limit of a compiled expression, in bytes."""


def compile_pattern(pattern: str | bytes) -> Any:
    """Return the compiled expression. Raises `re2.error`."""
    import re2  # takes a while, and few need it

    options = re2.Options()
    options.log_errors = False
    options.max_mem = LARGEST_BYTES
    return re2.compile(pattern, options)


def pattern_problem(pattern: str | bytes) -> str | None:
    """Return why this is not a valid regular expression; `None` when it is."""
    import re2

    try:
        compile_pattern(pattern)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        told = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        return f"is no regular expression: {told}"
    return None
