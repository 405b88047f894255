"""CSS selectors: reads their extensions, and bounds their cost.

`h2::text`, `a@href`, `a::attr(href)` and `div::html` name the value to take from an element. For
some parts of a selector the matching engine goes back over all ancestors or siblings, once more for
each such part. A page made for such a selector could keep the engine busy for hours, so these parts
are counted.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_TAKEN: Final = re.compile(
    r"(?:::(?P<what>text|html|own)|(?:::attr\(\s*|@)(?P<attribute>[A-Za-z_][\w:.-]*)(?P<end>\s*\))?)"
    r"\s*\Z"
)
_OPAQUE: Final = re.compile(r""""[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'|\[[^\]]*\]""")
_COMBINED: Final = re.compile(r"\s*([>+~,])\s*")
_ARGUMENTS: Final = re.compile(r":([\w-]+)\(([^()]*)\)")
_WIDE: Final = re.compile(r":(?:nth-|last-of-|only-of-)")
_COMPOUND: Final = re.compile(r"([\s>+~]?)([^\s>+~]+)")
_CONTAINS: Final = re.compile(r":contains\(")


class Compound(NamedTuple):
    """One part of a selector, with the cost of testing an element against it."""

    combinator: str
    """Combinator between this part and the one before it."""
    wide: bool = False
    """True if the part counts siblings."""
    deep: int = 0
    """Number of times that the part walks into or out of nested elements."""


Chain = tuple[Compound, ...]


class TakenValue(NamedTuple):
    """Selector, and the value to take from each match."""

    selector: str
    attribute: str | None = None
    html: bool = False
    own: bool = False


def split(text: str) -> TakenValue:
    """Split the selector from the value to take; by default the text of the element."""
    found = _TAKEN.search(text)
    if found is None or (found["end"] is not None) != found[0].startswith("::attr"):
        return TakenValue(_spelt(text))
    selector = _spelt(text[: found.start()])
    what = found["what"]
    return TakenValue(selector, found["attribute"], what == "html", what == "own")


def chains(selector: str) -> tuple[Chain, ...]:
    """Return the alternatives of a selector as chains; empty when none of them searches."""
    plain = _OPAQUE.sub("x", selector).strip()
    plain = re.sub(r"\s+", " ", _COMBINED.sub(r"\1", plain))
    while (shorter := _ARGUMENTS.sub(_folded, plain)) != plain:
        plain = shorter
    read = tuple(tuple(_compounds(alternative)) for alternative in plain.split(","))
    searching = any(
        part.combinator in {" ", "~"} or part.wide or part.deep for chain in read for part in chain
    )
    return read if searching else ()


def parts(selector: str) -> list[list[tuple[str, str]]]:
    """Return the alternatives of a selector, each as its compounds with the combinators before
    them."""
    alternatives: list[list[tuple[str, str]]] = []
    for text in _split(selector, ","):
        read: list[tuple[str, str]] = []
        joint = ""
        for piece in _split(_spaced(text), " "):
            if piece in {">", "+", "~"}:
                joint = piece
            elif piece:
                read.append((joint or (" " if read else ""), piece))
                joint = ""
        alternatives.append(read)
    return alternatives


def cost(chains: tuple[Chain, ...], *, elements: int, depth: int, breadth: int) -> int:
    """Return the most steps that matching may take on a page with this number of elements, depth
    and breadth."""
    total = 0
    for chain in chains:
        each = 0
        for part in chain:
            # A step upwards takes three times as long as one aside.
            ways = {" ": 3 * depth, "~": breadth}.get(part.combinator, 1)
            own = (breadth if part.wide else 1) * max(depth, 1) ** part.deep
            each = own + ways * each
        total += elements * each
    return total


def _spaced(selector: str) -> str:
    """Return the selector with spaces around all combinators outside of brackets and quotes."""
    return "".join(
        f" {char} "
        if char in ">+~" and not inside
        else (" " if char.isspace() and not inside else char)
        for char, inside in _nested(selector)
    )


def _split(text: str, at: str) -> list[str]:
    pieces = [""]
    for char, inside in _nested(text):
        if char == at and not inside:
            pieces.append("")
        else:
            pieces[-1] += char
    return pieces


def _nested(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each character, and whether it is within brackets or quotes."""
    depth, quote, escaped = 0, "", False
    for char in text:
        yield char, bool(depth or quote or escaped)
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1


def _folded(found: re.Match[str]) -> str:
    """Replace a pseudo-class with arguments by a word that stands for its cost."""
    name, arguments = found.groups()
    if name.startswith("nth-"):
        return ":nth-x"
    deep = arguments.count(" ") + arguments.count("~") + arguments.count(":deep")
    deep += name in {"has", "lexbor-contains"}
    return ":deep" * deep + (":nth-x" if ":nth-x" in arguments else "") or ":x"


def _compounds(alternative: str) -> Iterator[Compound]:
    for combinator, part in _COMPOUND.findall(alternative.strip()):
        yield Compound(combinator, bool(_WIDE.search(part)), part.count(":deep"))


def _spelt(selector: str) -> str:
    """Spell `:contains()` as the engine does."""
    return _CONTAINS.sub(":lexbor-contains(", selector.strip())
