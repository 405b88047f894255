"""What mypyc does not do as the interpreter does is not done in modules that are compiled."""

import ast
from collections.abc import Iterator

import pytest

from tests.compiled_modules import FILES, ROOT

OWN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def within(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below, but for those of functions that are only defined there."""
    yield node
    if not isinstance(node, OWN):
        for child in ast.iter_child_nodes(node):
            yield from within(child)


def suspensions_while_handling(tree: ast.AST) -> list[int]:
    """Lines that wait, or yield, while an exception is being handled: other tasks would seem to
    handle it meanwhile."""
    handling = [each for each in ast.walk(tree) if isinstance(each, ast.ExceptHandler)]
    endings = [
        statement
        for each in ast.walk(tree)
        if isinstance(each, ast.Try)
        for statement in each.finalbody
    ]
    waits = (ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncFor, ast.AsyncWith)
    return [
        found.lineno
        for place in (*handling, *endings)
        for found in within(place)
        if isinstance(found, waits)
    ]


def structs(tree: ast.AST) -> list[int]:
    """Lines that define a struct: its options would be lost."""
    return [
        each.lineno
        for each in ast.walk(tree)
        if isinstance(each, ast.ClassDef)
        and any(ast.unparse(base).endswith("Struct") for base in each.bases)
    ]


@pytest.mark.parametrize("module", FILES)
def test_a_compiled_module_does_nothing_that_would_differ(module: str) -> None:
    tree = ast.parse((ROOT / module).read_text())
    assert suspensions_while_handling(tree) == []
    assert structs(tree) == []


def test_what_would_differ_is_seen() -> None:
    tree = ast.parse(
        """
class One(msgspec.Struct, frozen=True): ...
async def two():
    try:
        await three()
    except ValueError:
        await four()
    finally:
        async with five(): ...
        async def six(): await seven()
"""
    )
    assert structs(tree) == [2]
    assert suspensions_while_handling(tree) == [7, 9]
