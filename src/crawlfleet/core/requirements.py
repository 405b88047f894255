"""What a bundle says it needs, read so that nothing but names of packages gets through.

The list is handed to an installer on the nodes, which runs with the node's own rights. So it may
name packages, versions, markers and hashes; options, paths and addresses are refused, since they
could make the installer read files of the node or run code of strangers while it builds.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, Final

MOST_REQUIREMENTS: Final = 500
LONGEST: Final = 2_000
_REQUIREMENT: Final = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
    r"\s*(?:\[[A-Za-z0-9._,\s-]*\])?"
    r"\s*\(?\s*(?P<versions>(?:(?:===|~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+\s*,?\s*)*)\)?"
    r"\s*(?:;\s*(?P<marker>[^#@\\]+))?\Z"
)
_HASH: Final = re.compile(r"\s--hash=sha(?:256|384|512):[0-9a-f]{64,128}")
_COMMENT: Final = re.compile(r"(^|\s)#.*$")


class BadRequirement(ValueError):
    """Something that is not the name of a package; the message says what to write instead."""


def from_text(text: str) -> list[str]:
    """The requirements in a `requirements.txt`. Raises `BadRequirement`."""
    joined = re.sub(r"\\\r?\n", " ", text)
    lines = (_COMMENT.sub("", line).strip() for line in joined.splitlines())
    return checked(line for line in lines if line)


def from_pyproject(text: str) -> list[str]:
    """The requirements in a `pyproject.toml`. Raises `BadRequirement`."""
    try:
        project: Any = tomllib.loads(text).get("project", {})
    except tomllib.TOMLDecodeError as error:
        raise BadRequirement(f"pyproject.toml cannot be read: {error}") from None
    found = project.get("dependencies", []) if isinstance(project, dict) else None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise BadRequirement("pyproject.toml: `project.dependencies` is not a list of texts")
    return checked(found)


def from_metadata(text: str) -> list[str]:
    """The requirements in the `METADATA` of a wheel, without its extras."""
    head = text.partition("\n\n")[0]
    wanted = (line.partition(":")[2].strip() for line in _named(head, "requires-dist"))
    return checked(each for each in wanted if "extra ==" not in each.partition(";")[2])


def names(requirement: str) -> str:
    """The package that a requirement names, in its one spelling."""
    found = _REQUIREMENT.match(_HASH.sub("", requirement))
    return re.sub(r"[-_.]+", "-", found["name"]).lower() if found else ""


def checked(found: Iterable[str]) -> list[str]:
    """The same, if each is the name of a package. Raises `BadRequirement`."""
    wanted = [each.strip() for each in found]
    if len(wanted) > MOST_REQUIREMENTS:
        raise BadRequirement(f"{len(wanted)} requirements; {MOST_REQUIREMENTS} are allowed")
    for each in wanted:
        plain = _HASH.sub("", each).strip()
        if len(each) > LONGEST or "\n" in each or not _REQUIREMENT.match(plain):
            raise BadRequirement(
                f"{each[:80]!r} is no package with versions, such as `parsel>=1.8`; options, "
                "paths and addresses are not taken: set the index on the nodes, and put other "
                "code into the bundle itself"
            )
    return wanted


def _named(head: str, name: str) -> Iterator[str]:
    return (line for line in head.splitlines() if line.lower().startswith(f"{name}:"))
