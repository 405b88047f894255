"""Requirements of a bundle, parsed so that only names of packages pass.

The list is handed to an installer on the nodes, which runs with the node's own rights. So it may
name packages, versions, markers and hashes; options, paths and addresses are refused, since they
could make the installer read files of the node or run code of strangers while it builds.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from crawlfleet.core.text.nesting import brackets_too_deep

MAX_REQUIREMENTS: Final = 500
LONGEST: Final = 40_000
"""Length limit of one requirement with its hashes: a package with many wheels has more than a
hundred."""
LONGEST_PLAIN: Final = 1_000
MAX_BRACKETS: Final = 20
"""Limit of brackets in a marker: the functions that parse markers are recursive."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9._,<>=!~*+()\[\]; \"'-]+")
"""Characters with which no path, address, variable or comment can be written."""
_HASHED: Final = " --hash="
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}")
_TOML_STRINGS: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"'
    r"|'''.*?'''|'[^'\n]*'|#[^\n]*",
    re.DOTALL,
)
"""Pattern of strings and comments in TOML."""
_COMMENT: Final = re.compile(r"(^|\s)#.*", re.DOTALL)


class BadRequirement(ValueError):
    """Raised for a requirement that is not the name of a package; the message has the remedy."""


def from_text(text: str) -> list[str]:
    """Return the requirements in a `requirements.txt`. Raises `BadRequirement`."""
    joined = re.sub(r"\\\r?\n", " ", text)
    lines = (_COMMENT.sub("", line).strip() for line in joined.splitlines())
    return checked(line for line in lines if line)


def from_pyproject(text: str) -> list[str]:
    """Return the requirements in a `pyproject.toml`. Raises `BadRequirement`."""
    if brackets_too_deep(_TOML_STRINGS.sub("", text).encode(errors="replace")):
        raise BadRequirement("pyproject.toml cannot be read: it is nested too deep")
    try:
        project: Any = tomllib.loads(text).get("project", {})
    except tomllib.TOMLDecodeError as error:
        raise BadRequirement(f"pyproject.toml cannot be read: {error}") from None
    found = project.get("dependencies", []) if isinstance(project, dict) else None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise BadRequirement("pyproject.toml: `project.dependencies` is not a list of texts")
    return checked(found)


def from_metadata(text: str) -> list[str]:
    """Return the requirements in the `METADATA` of a wheel, without its extras."""
    head = text.partition("\n\n")[0]
    wanted = (line.partition(":")[2].strip() for line in _named(head, "requires-dist"))
    return checked(each for each in wanted if "extra ==" not in each.partition(";")[2])


def names(requirement: str) -> str:
    """Return the package that a checked requirement names, in normalised spelling."""
    return re.split(r"[^a-z0-9-]", requirement, maxsplit=1)[0]


def checked(found: Iterable[str]) -> list[str]:
    """Return the requirements in normalised spelling. Raises `BadRequirement` if one is not the
    name of a package."""
    wanted = [*islice(found, MAX_REQUIREMENTS + 1)]
    if len(wanted) > MAX_REQUIREMENTS:
        raise BadRequirement(f"more than {MAX_REQUIREMENTS} requirements")
    return [_checked(each) for each in wanted]


def _checked(found: str) -> str:
    line = found.replace("\t", " ").strip(" ")
    plain, *hashes = (part.strip(" ") for part in line[: LONGEST + 1].split(_HASHED))
    written = _written(plain) if len(line) <= LONGEST and line.isprintable() else None
    if written is None or not all(_HASH.fullmatch(each) for each in hashes):
        raise BadRequirement(
            f"{found[:80]!r} is no package with versions, such as `parsel>=1.8`; options, "
            "paths and addresses are not taken: set the index on the nodes, and put other "
            "code into the bundle itself"
        )
    return "".join((written, *(f"{_HASHED}{each}" for each in hashes)))


def _written(plain: str) -> str | None:
    """Return a requirement in our own notation, whatever notation its author used."""
    if len(plain) > LONGEST_PLAIN or plain.count("(") > MAX_BRACKETS:
        return None
    try:
        requirement = Requirement(plain)
    except InvalidRequirement:
        return None
    if requirement.url is not None:
        return None
    # In its one spelling it has no dot: uv takes `x.whl` for a file.
    requirement.name = canonicalize_name(requirement.name)
    written = str(requirement)
    # Nothing that begins a word with a dash: uv takes that for an option wherever it stands.
    return written if _PLAIN.fullmatch(written) and " -" not in written else None


def _named(head: str, name: str) -> Iterator[str]:
    return (line for line in head.splitlines() if line.lower().startswith(f"{name}:"))
