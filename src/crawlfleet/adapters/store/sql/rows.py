"""Structs become rows and rows become structs, by the field types and the table's columns.

A field is stored as it is, as the value of its enumeration, as raw JSON text, or as JSON that is
null for the field's default. Fields without a column go into `options`. The plan is made once for
each struct; then a row costs one C call to fetch all fields, and a small call per special field.
Many rows are one list of values, as a driver takes them.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from itertools import chain
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Final, Generic, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo
from sqlalchemy import Table as SqlTable

from crawlfleet.adapters.store.sql import schema
from crawlfleet.adapters.store.sql.columns import OPTIONS
from crawlfleet.model.audit import AuditEntry
from crawlfleet.model.event import Event
from crawlfleet.model.node import Node, Session
from crawlfleet.model.task import (
    EXECUTION_BLANKS,
    EXECUTION_CHANGES,
    EXECUTION_STEPS,
    TASK_BLANKS,
    TASK_CHANGES,
    TASK_STEPS,
    Execution,
    ExecutionStatus,
    Task,
    TaskStatus,
)
from crawlfleet.ports import kernel_tables
from crawlfleet.ports.store import Claim
from crawlfleet.ports.tables import NOTHING_JOINED, Joint, Table

S = TypeVar("S", bound=msgspec.Struct)
Convert = Callable[[Any], Any]

PLAIN: Final = (str, int, float)
_encode: Final = msgspec.json.Encoder().encode


def _required(kind: Any) -> Any:
    """The type of a field without its `| None`."""
    if get_origin(kind) is UnionType:
        (kind,) = (part for part in get_args(kind) if part is not NoneType)
    return kind


def _default(field: FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _write_raw(value: msgspec.Raw) -> str:
    return str(value, "utf-8")


def _json_writer(default: Any) -> Convert:
    def write(value: Any) -> str | None:
        return None if value is default or value == default else _encode(value).decode()

    return write


class _Options:
    """The fields of a struct that have no column, together in one JSON object."""

    def __init__(self, kind: type[msgspec.Struct], fields: Sequence[FieldInfo]) -> None:
        self._names = [field.name for field in fields]
        self._values = attrgetter(*self._names)
        self._kind: Any = msgspec.defstruct(
            f"{kind.__name__}Options",
            [(field.name, field.type, _default(field)) for field in fields],
            omit_defaults=True,
        )
        self._decode = msgspec.json.Decoder(self._kind).decode

    def write(self, struct: msgspec.Struct) -> str | None:
        text = _encode(self._kind(*self._values(struct)))
        return None if text == b"{}" else text.decode()

    def read(self, text: str) -> dict[str, Any]:
        return msgspec.structs.asdict(self._decode(text))


class RowMap(Generic[S]):
    """The way between one struct and the rows of its table."""

    def __init__(
        self,
        kind: type[S],
        table: SqlTable,
        *,
        only: Sequence[str] = (),
        blank: Collection[str] = (),
        joined: Mapping[str, Joint] = NOTHING_JOINED,
    ) -> None:
        """Map a struct to rows. With `only`, those columns, to change existing rows. With `blank`,
        all but those, to make rows that have nothing there. With `joined`, an existing row is not
        replaced: these columns of it are joined with the written values.
        """
        self.joined = joined
        self.table = table
        names = only or [column.key for column in table.columns if column.key not in blank]
        self.columns = tuple(table.columns[name] for name in names)
        self.is_whole = not only
        self.kind = kind
        # Plain ones: by SQLAlchemy's own kind of strings a struct takes twice as long to make.
        self._names = tuple(sys.intern(str(column.key)) for column in self.columns)
        self._writers: list[tuple[int, Convert]] = []
        self._readers: list[tuple[str, Convert]] = []
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        folded = [field for name, field in fields.items() if name not in table.columns]
        folded = folded if OPTIONS in self._names else []
        self._options = _Options(kind, folded) if folded else None
        self._options_at = self._names.index(OPTIONS) if folded else -1
        paths = [
            "__class__" if name == OPTIONS else self._plan(index, fields[name])
            for index, name in enumerate(self._names)
        ]
        self._values: Callable[[S], tuple[Any, ...]] = attrgetter(*paths)

    def _plan(self, index: int, field: FieldInfo) -> str:
        """Note how a field is converted, and return the path by which its value is fetched."""
        name, kind = field.name, _required(field.type)
        if isinstance(kind, type) and issubclass(kind, Enum):
            self._readers.append((name, kind._value2member_map_.__getitem__))
            return f"{name}._value_"
        if kind is msgspec.Raw:
            self._writers.append((index, _write_raw))
            self._readers.append((name, msgspec.Raw))
        elif kind not in PLAIN:
            self._writers.append((index, _json_writer(_default(field))))
            self._readers.append((name, msgspec.json.Decoder(kind).decode))
        return name

    def reader(self, name: str) -> Convert:
        """Return the function that converts the value of a column to that of the field."""
        return dict(self._readers).get(name, lambda value: value)

    def encode(self, structs: Collection[S]) -> list[Any]:
        """The values of a row for each struct, in the order of `columns`, row after row.

        Many at once and without a list for each: the way to a row costs as much as the work.
        """
        values = [*chain.from_iterable(map(self._values, structs))]
        width = len(self.columns)
        for index, write in self._writers:
            values[index::width] = [
                None if value is None else write(value) for value in values[index::width]
            ]
        if self._options:
            values[self._options_at :: width] = map(self._options.write, structs)
        return values

    def decode(self, row: Sequence[Any]) -> S:
        """Return the struct of a row; a null column takes the field's default."""
        fields = dict(zip(self._names, row, strict=True))
        for name, read in self._readers:
            stored = fields[name]
            if stored is None:
                del fields[name]
            else:
                fields[name] = read(stored)
        if self._options:
            folded = fields.pop(OPTIONS)
            if folded is not None:
                fields.update(self._options.read(folded))
        return self.kind(**fields)

    def decode_all(self, rows: Iterable[Sequence[Any]]) -> list[S]:
        return [self.decode(row) for row in rows]


NODE: Final = RowMap(Node, schema.nodes)
SESSION: Final = RowMap(Session, schema.sessions)
TASK: Final = RowMap(Task, schema.tasks)
EXECUTION: Final = RowMap(Execution, schema.executions)
EVENT: Final = RowMap(Event, schema.events)
CLAIM: Final = RowMap(Claim, schema.claims)
AUDIT: Final = RowMap(AuditEntry, schema.audit)

_DECLARED: Final[dict[Table[Any], RowMap[Any]]] = {
    table: RowMap(table.kind, made, joined=table.joined) for table, made in schema.DECLARED.items()
}


def mapping_of(table: Table[S]) -> RowMap[S]:
    """Return the row mapping of a declared table."""
    return _DECLARED[table]


USAGE: Final = mapping_of(kernel_tables.USAGE)

CHANGED: Final[dict[RowMap[Any], RowMap[Any]]] = {
    TASK: RowMap(Task, schema.tasks, only=("id", *TASK_CHANGES)),
    EXECUTION: RowMap(Execution, schema.executions, only=("id", *EXECUTION_CHANGES)),
}
"""Mappings that write existing rows of which most columns never change."""


USUAL_NEW_TASK: Final = RowMap(Task, schema.tasks, blank=TASK_BLANKS)
USUAL_NEW_EXECUTION: Final = RowMap(Execution, schema.executions, blank=EXECUTION_BLANKS)
USUAL_TASKS: Final[dict[TaskStatus, RowMap[Any]]] = {
    status: RowMap(Task, schema.tasks, only=("id", "status", "version", "updated_at", *changes))
    for status, changes in TASK_STEPS.items()
}
USUAL_EXECUTIONS: Final[dict[ExecutionStatus, RowMap[Any]]] = {
    status: RowMap(Execution, schema.executions, only=("id", "status", "version", *changes))
    for status, changes in EXECUTION_STEPS.items()
}
"""Mappings for executions in their usual steps: half of the values, and fewer indexes."""

_HOT: Final[tuple[RowMap[Any], ...]] = (NODE, SESSION, TASK, EXECUTION)
VERSIONED: Final[dict[type[Any], RowMap[Any]]] = {
    mapping.kind: mapping for mapping in (*_HOT, *_DECLARED.values()) if mapping is not USAGE
}
"""Mappings for the rows of a change, by their class."""
