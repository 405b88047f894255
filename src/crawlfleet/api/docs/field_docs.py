"""Reads the docstrings under the fields of structs, and adds them to the API's schemas."""

import ast
import inspect
import textwrap
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import inspect as kinds


def add_notes(types: Sequence[Any], components: dict[str, Any]) -> None:
    """Describe the fields in the schemas of all structs that the types are made of."""
    for struct in _structs(kinds.multi_type_info(types)):
        fields = components[struct.__name__]["properties"]
        for name, note in field_notes(struct).items():
            fields[name] = {**fields[name], "description": note}


@lru_cache
def whole_schema(struct: type) -> dict[str, Any]:
    """The JSON schema of a struct, whole in itself, with the texts that describe fields."""
    (schema,), components = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    add_notes([struct], components)
    # As a reader of the JSON would have it: defaults are tuples and structs until then.
    plain: dict[str, Any] = msgspec.json.decode(
        msgspec.json.encode({**schema, "$defs": components})
    )
    return plain


def field_notes(struct: type) -> dict[str, str]:
    """The text under each field of a struct that has one."""
    notes: dict[str, str] = {}
    for cls in reversed(struct.__mro__):
        if issubclass(cls, msgspec.Struct) and cls is not msgspec.Struct:
            notes |= _notes_in(cls)
    return notes


@cache  # to find the source of a class its whole module is parsed, each time
def _notes_in(cls: type) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    notes: dict[str, str] = {}
    for field, note in pairwise(tree.body):
        match field, note:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                notes[name] = inspect.cleandoc(text)
    return notes


def _structs(infos: Sequence[kinds.Type]) -> set[type]:
    found: set[type] = set()
    waiting: list[kinds.Type] = [*infos]
    while waiting:
        match waiting.pop():
            case kinds.StructType(cls=struct, fields=fields) if struct not in found:
                found.add(struct)
                waiting += [field.type for field in fields]
            case kinds.Metadata(type=inner) | kinds.DictType(value_type=inner):
                waiting.append(inner)
            case kinds.ListType(item_type=inner) | kinds.VarTupleType(item_type=inner):
                waiting.append(inner)
            case kinds.UnionType(types=several):
                waiting += several
    return found
