"""Writes what type checkers know of the client that waits: the other one's methods.

    .venv/bin/python -m tests.client.blocking_calls

`crawlfleet.client.blocking` writes no method twice, so that nothing but this stub tells of them.
"""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import crawlfleet.client
from crawlfleet.client import Client

STUB: Final = Path(crawlfleet.client.__file__).with_name("blocking_calls.pyi")
HEAD: Final = (
    '"""The methods of a client that wait. Written by tests/client/blocking_calls.py."""\n'
)
ONE_BY_ONE: Final = {"AsyncIterator": "Iterator", "AsyncGenerator": "Iterator"}


def stub() -> str:
    """The text of the stub, as `ruff format` leaves it."""
    kinds = [
        kind for kind in Client.__mro__ if kind.__module__.startswith(crawlfleet.client.__name__)
    ]
    modules = [sys.modules[kind.__module__] for kind in kinds]
    methods = [_waiting(method) for kind in kinds for method in _public_methods(kind)]
    body = ast.ClassDef("BlockingCalls", [], [], [*methods], [])
    whole = ast.unparse(ast.fix_missing_locations(ast.Module([body], [])))
    names = {node.id for node in ast.walk(ast.parse(whole)) if isinstance(node, ast.Name)}
    text = "\n".join([HEAD, *sorted(_imports(modules, names)), "", whole])
    return _formatted(text)


def _public_methods(kind: type) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    (found,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(found, ast.ClassDef)
    for each in found.body:
        is_method = isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_method and not each.name.startswith("_") and not each.decorator_list:
            yield each


def _waiting(method: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.FunctionDef:
    """How a method of the blocking client looks, without what it does."""
    arguments = method.args
    arguments.defaults = [_left_out() for _ in arguments.defaults]
    arguments.kw_defaults = [each and _left_out() for each in arguments.kw_defaults]
    return ast.FunctionDef(
        name=method.name,
        args=arguments,
        body=[ast.Expr(_left_out())],
        decorator_list=[],
        returns=_given_one_by_one(method.returns),
    )


def _left_out() -> ast.expr:
    return ast.Constant(...)


def _given_one_by_one(kind: ast.expr | None) -> ast.expr | None:
    """`Iterator[X]` for what an async iterator of `X` gives."""
    if isinstance(kind, ast.Subscript) and isinstance(kind.value, ast.Name):
        name = ONE_BY_ONE.get(kind.value.id)
        if name is not None:
            given = kind.slice.elts[0] if isinstance(kind.slice, ast.Tuple) else kind.slice
            return ast.Subscript(ast.Name(name), given)
    return kind


def _imports(modules: list[ModuleType], names: set[str]) -> Iterator[str]:
    """From where the modules have the names that are used, each once."""
    left = names - {"Iterator"}
    if "Iterator" in names:
        yield "from collections.abc import Iterator"
    for module in modules:
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.ImportFrom):
                for each in node.names:
                    if each.name in left:
                        left.remove(each.name)
                        yield f"from {node.module} import {each.name}"


def _formatted(text: str) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        done = subprocess.run(
            [ruff, *command, "--stdin-filename", STUB.name, "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        text = done.stdout
    return text


if __name__ == "__main__":
    STUB.write_text(stub())
