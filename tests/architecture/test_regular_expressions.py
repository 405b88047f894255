"""No regular expression of the product can be made to take for ever.

Crawled pages, headers, addresses and what users write meet regular expressions in many places.
Python's engine goes back when a match fails, and a careless expression then takes a time that is
quadratic or exponential in the text. So each expression is attacked here: for each of its
repetitions, texts are built that begin to match, repeat what may be repeated, and end badly.
Expressions that users write are run by RE2, which cannot go back.
"""

import ast
import functools
import importlib
import pkgutil
import re
import re._constants as codes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final, NamedTuple

import pytest

import crawlfleet

SIZE: Final = 50_000
"""Characters of an attack, unless the text is known to be shorter."""
CPU_S_PER_MB: Final = 2.0
LEAST_CPU_S: Final = 0.25
"""For measuring on a busy machine."""
METHODS: Final = ("search", "match", "fullmatch", "sub", "split", "findall", "finditer")
SHORT: Final = {
    "crawlfleet.core.pages.css._OPAQUE": 2_000,  # model.extraction.LONGEST, as the next three
    "crawlfleet.core.pages.css._COMBINED": 2_000,
    "crawlfleet.core.pages.css._TAKEN": 2_000,
    "crawlfleet.core.pages.xpath._HARMLESS": 2_000,
    "crawlfleet.crawl.fetch.charset._META": 4_096,  # charset.PRESCAN_BYTES
    "crawlfleet.crawl.fetch.charset._COMMENT": 4_096,
}
"""How long the texts are that these ever see, where that is bounded before they are asked."""
MADE_OF_FIXED_WORDS: Final = {"crawlfleet.adapters.sinks.rotating_file"}
"""Modules with an expression that is made where it is used, of words that are escaped."""


class Expression(NamedTuple):
    """A regular expression, and how the product uses it."""

    where: str
    pattern: "re.Pattern[Any]"
    methods: tuple[str, ...]


class TooSlow(Exception):
    pass


def sources() -> Iterator[tuple[str, str]]:
    """Each module and its text."""
    for found in pkgutil.walk_packages(crawlfleet.__path__, "crawlfleet."):
        spec = found.module_finder.find_spec(found.name, None)  # type: ignore[call-arg]
        assert spec is not None
        if "migrations" not in found.name:
            yield found.name, Path(str(spec.origin)).read_text()


def modules() -> Iterator[ModuleType]:
    """Those that have a regular expression."""
    for name, source in sources():
        if "import re\n" in source:
            yield importlib.import_module(name)


@functools.cache
def expressions() -> list[Expression]:
    return [each for module in modules() for each in expressions_of(module)]


def expressions_of(module: ModuleType) -> Iterator[Expression]:
    """Those that the module has made under a name, and those that it writes where it uses them."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    uses: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            uses.setdefault(node.value.id, set()).add(node.attr)
        if isinstance(node, ast.Call) and (used := used_at_once(node)) is not None:
            method, pattern = used
            yield Expression(f"{module.__name__}:{node.lineno}", re.compile(pattern), (method,))
    for name, value in vars(module).items():
        owner = getattr(value, "__self__", value)
        if not isinstance(owner, re.Pattern) or not is_made_in(tree, name):
            continue
        used = uses.get(name, set()) if owner is value else {value.__name__}
        methods = tuple(method for method in METHODS if method in used)
        yield Expression(f"{module.__name__}.{name}", owner, methods or ("search", "fullmatch"))


def used_at_once(call: ast.Call) -> tuple[str, str | bytes] | None:
    function = call.func
    if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)):
        return None
    if function.value.id != "re" or function.attr not in METHODS:
        return None
    pattern = call.args[0]
    assert isinstance(pattern, ast.Constant), f"line {call.lineno}: give this expression a name"
    return function.attr, pattern.value


def is_made_in(tree: ast.Module, name: str) -> bool:
    targets = [
        target
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


# Attacks


def attacks(pattern: "re.Pattern[Any]", size: int) -> Iterator[Any]:
    """Texts of that size: for each repetition, what leads to it, what it repeats again and again,
    and an end that does not match."""
    flags = pattern.flags & ~re.DEBUG
    tree = parser.parse(pattern.pattern, flags)
    encode = str if isinstance(pattern.pattern, str) else lambda text: text.encode("latin-1")
    seen = set()
    for before, units in repetitions(tree, [""]):
        for unit in units:
            for lead in before:
                for text in (
                    lead + unit * (size // max(len(unit), 1)),
                    (lead + unit) * (size // max(len(lead + unit), 1)),
                    lead * (size // max(len(lead), 1)),
                    unit * (size // max(len(unit), 1)),
                ):
                    for end in ("", "\x00", "!", "\n\x00"):
                        attack = encode(text[:size] + end)
                        if attack and attack not in seen:
                            seen.add(attack)
                            yield attack


def repetitions(tree: Any, before: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Each repetition within, with texts that lead to it and texts of one round."""
    for operation, argument in tree:
        if operation in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            _, most, body = argument
            rounds = samples(body)
            if most > 15:
                yield before, [each for each in rounds if each]
            yield from repetitions(body, before)
        else:
            for inner in inner_trees(operation, argument):
                yield from repetitions(inner, before)
        after = samples([(operation, argument)])
        before = [lead + text for lead in before[:2] for text in after[:2]]


def inner_trees(operation: Any, argument: Any) -> list[Any]:
    if operation is codes.SUBPATTERN:
        return [argument[3]]
    if operation is codes.BRANCH:
        return list(argument[1])
    if operation is codes.ATOMIC_GROUP:
        return [argument]
    if operation in (codes.ASSERT, codes.ASSERT_NOT):
        return [argument[1]]
    return []


def samples(tree: Any) -> list[str]:
    """A few texts that the tree matches."""
    texts = [""]
    for operation, argument in tree:
        texts = [text + more for text in texts for more in sample(operation, argument)][:8]
    return list(dict.fromkeys(texts))


def sample(operation: Any, argument: Any) -> list[str]:
    if operation is codes.LITERAL:
        return [chr(argument)]
    if operation is codes.NOT_LITERAL:
        return ["a" if argument != ord("a") else "b"]
    if operation is codes.ANY:
        return ["a", " "]
    if operation is codes.IN:
        return chosen(argument)
    if operation in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least, _, body = argument
        once = [text * max(least, 1) for text in samples(body)]
        return once[:3] if least else [*once[:2], ""]
    if operation is codes.SUBPATTERN:
        return samples(argument[3])
    if operation is codes.ATOMIC_GROUP:
        return samples(argument)
    if operation is codes.BRANCH:
        return [text for branch in argument[1] for text in samples(branch)[:2]]
    return [""]


CANDIDATES: Final = "a1 A.-_/=<>\"'&?%:;,#\t\n\\([{)]}é\x01"


def chosen(parts: Any) -> list[str]:
    """Up to three different characters of a set."""
    found = [char for char in CANDIDATES if is_in(char, parts)]
    for operation, argument in parts:
        if operation is codes.LITERAL:
            found.append(chr(argument))
        elif operation is codes.RANGE:
            found.append(chr(argument[0]))
    return list(dict.fromkeys(found))[:3] or ["a"]


CATEGORIES: Final = {
    codes.CATEGORY_DIGIT: str.isdigit,
    codes.CATEGORY_SPACE: str.isspace,
    codes.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
    codes.CATEGORY_NOT_DIGIT: lambda char: not char.isdigit(),
    codes.CATEGORY_NOT_SPACE: lambda char: not char.isspace(),
    codes.CATEGORY_NOT_WORD: lambda char: not (char.isalnum() or char == "_"),
}


def is_in(char: str, parts: Any) -> bool:
    negated = parts[0][0] is codes.NEGATE
    hit = False
    for operation, argument in parts:
        if operation is codes.LITERAL:
            hit |= ord(char) == argument
        elif operation is codes.RANGE:
            hit |= argument[0] <= ord(char) <= argument[1]
        elif operation is codes.CATEGORY:
            hit |= bool(CATEGORIES[argument](char))
    return hit is not negated


# Measuring


def cpu_s(pattern: "re.Pattern[Any]", method: str, text: Any, within_s: float) -> float:
    """Raises `TooSlow` when it takes longer."""

    def stop(signal_number: int, frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, within_s)
    began = time.process_time()
    try:
        if method == "sub":
            pattern.sub(text[:0], text)
        elif method == "finditer":
            for _ in pattern.finditer(text):
                pass
        else:
            getattr(pattern, method)(text)
        return time.process_time() - began
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def weakness(expression: Expression, size: int = SIZE) -> str | None:
    """The attack that takes too long; `None` when none does."""
    limit_s = max(CPU_S_PER_MB * size / 1e6, LEAST_CPU_S)
    for attack in attacks(expression.pattern, size):
        for method in expression.methods:
            try:
                cpu_s(expression.pattern, method, attack, limit_s)
            except TooSlow:
                return f"{method} takes more than {limit_s} s of {attack[:60]!r}… ({len(attack)})"
    return None


def names() -> list[str]:
    return [each.where for each in expressions()]


def test_all_expressions_are_found() -> None:
    assert len(expressions()) > 100
    assert any("truncate._MARK_UP" in name for name in names())
    assert any("canonical._ROOTED" in name for name in names())


def unnamed(tree: ast.Module) -> list[int]:
    """Lines with an expression that has no name of its own in the module, so that nothing here
    would attack it."""
    named = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            value = node.value.value if isinstance(node.value, ast.Attribute) else node.value
            named |= {value.func} if isinstance(value, ast.Call) else set()
    return [node.lineno for node in ast.walk(tree) if makes(node) and node not in named]


def makes(node: ast.AST) -> bool:
    """Whether this is `re.compile`, or a way to call it otherwise."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "re"
    if isinstance(node, ast.Import):
        return any(each.name == "re" and each.asname for each in node.names)
    is_called_so = isinstance(node, ast.Attribute) and node.attr == "compile"
    return is_called_so and isinstance(node.value, ast.Name) and node.value.id == "re"


def test_each_expression_has_a_name_of_its_own() -> None:
    found = {name: unnamed(ast.parse(source)) for name, source in sources()}
    assert {name for name, lines in found.items() if lines} == MADE_OF_FIXED_WORDS


@pytest.mark.parametrize(
    "source",
    [
        "TABLE = {'x': re.compile('(a+)+$')}",
        "class A:\n    x = re.compile('(a+)+$')",
        "def f():\n    return re.compile('(a+)+$')",
        "EACH = [*map(re.compile, TEXTS)]",
        "from re import compile",
        "import re as expressions",
    ],
)
def test_expressions_without_a_name_are_found(source: str) -> None:
    assert unnamed(ast.parse(source))
    assert not unnamed(ast.parse("X = re.compile('a')\nY: Final = re.compile('b').match"))


def test_no_expression_can_be_made_to_take_for_ever() -> None:
    weak = {}
    for expression in expressions():
        if found := weakness(expression, SHORT.get(expression.where, SIZE)):
            weak[expression.where] = found
    assert weak == {}


@pytest.mark.parametrize(
    "careless",
    [
        r"(a+)+$",
        r"<!--.*?-->",
        r"\s*,\s*$",
        rb"<[a-z]*(?:[\s/]+[^\s/>=]?[^\s/>=]*(?:=\w*)?){30}>",
        r"(?:x|y|xy)+z",
        r"(.*)\(.*\)",
    ],
)
def test_careless_expressions_are_found(careless: str | bytes) -> None:
    assert weakness(Expression("here", re.compile(careless, re.DOTALL), ("search",)))


@pytest.mark.parametrize("careful", [r"\A[a-z]+\Z", r"<[^>]*+", r"(?>a+)b{0,9}", r"\d{1,5}"])
def test_careful_expressions_pass(careful: str) -> None:
    assert not weakness(Expression("here", re.compile(careful), ("match",)))
