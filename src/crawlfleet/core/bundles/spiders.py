"""Names of spiders, read from Python code that is never run.

A spider is a class with a `name` whose bases look like those of a spider, as Scrapy requires. That
is a guess, good enough to choose from: names that code creates at run time are not seen.
"""

import re
from typing import Final

MAX_SPIDERS: Final = 200
LONGEST: Final = 100

_CLASS: Final = re.compile(r"class\s+\w+\s*\(([^()]{0,500})\)\s*:")
_NAME: Final = re.compile(
    r"""\s+name\s{0,20}(?::\s{0,20}[\w. ]{1,40})?=\s{0,20}(['"])([^'"\\]+)\1"""
)


def spiders_in(text: str) -> set[str]:
    """Return the names of the spiders of a module."""
    found: set[str] = set()
    inside, body = False, ""
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        if header := _CLASS.match(line):
            inside, body = "Spider" in header[1], ""
        elif not line.strip() or line.lstrip().startswith("#"):
            continue
        elif not indent:
            inside = False
        elif inside:
            body = body or indent
            named = _NAME.match(line) if indent == body else None
            if named and _is_name(named[2]):
                found.add(named[2])
    return found


def _is_name(text: str) -> bool:
    return len(text) <= LONGEST and text.isprintable()
