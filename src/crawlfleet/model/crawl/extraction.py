"""What is taken out of a page: a plan, made from a crawl's `selectors`, checked once.

`FieldSpec` is how people write a field; `core.pages.selectors` turns what they wrote into a
`ExtractionPlan`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from crawlfleet.model.crawl.parameters import Part

LONGEST: Final = 2000
"""Characters of one expression."""
Expression = Annotated[str, Meta(min_length=1, max_length=LONGEST)]
PAGES: Final = "pages"
"""The kind of an item that is a whole page."""
STRUCTURED: Final = "structured"
"""The kind of an item that holds what a page says of itself: JSON-LD, OpenGraph, microdata."""
ITEMS: Final = "items"
"""The kind of the items that a crawl's `item` names."""
PAGE_URL: Final = "page_url"
"""The field of every item that has the address of its page; no other field may have this name."""
FIRST_LINK: Final = "url"
"""The field of an item of the flat map that has its first link, unless the map has that name."""


class Language(StrEnum):
    """How a place in a page is written down."""

    CSS = "css"
    XPATH = "xpath"
    JSON = "json"


class ValueType(StrEnum):
    """What becomes of the text that was caught; a text that is none of it counts as missing."""

    TEXT = "text"
    """Runs of white space are one space."""
    RAW = "raw"
    """Untouched."""
    NUMBER = "number"
    INTEGER = "integer"
    PRICE = "price"
    """The amount."""
    CURRENCY = "currency"
    DATE = "date"
    """ISO 8601; with a time where the text has one."""
    URL = "url"
    """Absolute."""
    BOOL = "bool"
    EXISTS = "exists"
    """Whether anything was caught at all."""
    JSON = "json"
    """The value itself where the page is JSON; else the text, read as JSON."""


class FieldSpec(Part, frozen=True, kw_only=True):
    """A field or a group of fields as people write it, where one text is not enough."""

    select: Expression | None = None
    """In any language, told by its beginning."""
    css: Expression | None = None
    xpath: Expression | None = None
    json: Expression | None = None
    """A path; beside one of the others it leads through the JSON in the text that was caught."""
    attr: Annotated[str, Meta(pattern=r"^[A-Za-z_][\w:.-]*$")] | None = None
    regex: Expression | None = None
    """Searched for in the text; its first group is taken, or all that matched."""
    type: ValueType | None = None
    format: Expression | None = None
    """How a date is written, as for `strptime`."""
    many: bool | None = None
    """All matches as a list, not the first alone."""
    default: Any = None
    fields: dict[str, Any] | None = None
    """Makes it a group: each match becomes an object with these fields."""


Step = str | int | None
"""One step of a JSON path: a key, a position, or `None` for all of them."""


class SelectorQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a page, and what of it is taken."""

    language: Language
    expression: str = ""
    """Empty: the thing itself that the group found."""
    attribute: str | None = None
    html: bool = False
    """The mark-up, not the text."""
    own: bool = False
    """Only the text that is not within further elements."""
    path: tuple[Step, ...] = ()
    """Of a JSON query."""


class FieldPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One field, or a group of them."""

    name: str
    query: SelectorQuery
    inner: tuple[Step, ...] | None = None
    """A path through the JSON in the text that was caught."""
    pattern: str | None = None
    type: ValueType = ValueType.TEXT
    format: str | None = None
    many: bool = False
    default: Any = None
    fields: tuple["FieldPlan", ...] = ()
    path: str = ""
    """What people are told when it catches nothing: `title`, or `products.title` in a group."""


class ExtractionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All that is taken out of each page of a crawl."""

    flat: tuple[FieldPlan, ...] = ()
    """Of the flat map, where the item is not named: which of them it is, is seen on each page."""
    groups: tuple[FieldPlan, ...] = ()
    page: tuple[FieldPlan, ...] = ()
    """Fields of the page as a whole, beside groups."""
    structured: bool = False

    def __bool__(self) -> bool:
        """Whether there is anything to take."""
        return bool(self.flat or self.groups or self.page or self.structured)


class Item(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing that was found on a page."""

    kind: str
    """The key in the result, in the plural: `products`."""
    fields: Mapping[str, Any]


class EmptyFields(NamedTuple):
    """Fields that no item has had a value for."""

    selectors: Mapping[str, str]
    """By the name of the field; within groups by its path. `item` is what was to be one item."""
    pages: int
    """So many were read."""
