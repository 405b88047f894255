"""Extraction plans: the data to take from each page, parsed from a crawl's `selectors`.

`FieldSpec` is the long form of a field in parameters; `core.pages.selectors` turns the selectors
into an `ExtractionPlan`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from crawlfleet.model.crawl.parameters import Part

LONGEST: Final = 2000
"""Maximum length of an expression."""
Expression = Annotated[str, Meta(min_length=1, max_length=LONGEST)]
PAGES: Final = "pages"
"""Kind of an item that is a whole page."""
STRUCTURED: Final = "structured"
"""Kind of an item with the structured data of a page: JSON-LD, OpenGraph, microdata."""
ITEMS: Final = "items"
"""Kind of the items that a crawl's `item` selects."""
PAGE_URL: Final = "page_url"
"""Field of every item with the address of its page; no other field may have this name."""
FIRST_LINK: Final = "url"
"""Field of an item of a flat map with its first link, unless the map has a field of that name."""


class Language(StrEnum):
    """The language of a selector."""

    CSS = "css"
    XPATH = "xpath"
    JSON = "json"


class ValueType(StrEnum):
    """Conversion of matched text; text that cannot be converted counts as missing."""

    TEXT = "text"
    """Text with each run of white space replaced by one space."""
    RAW = "raw"
    """Text without changes."""
    NUMBER = "number"
    INTEGER = "integer"
    PRICE = "price"
    """The amount of a price."""
    CURRENCY = "currency"
    DATE = "date"
    """A date in ISO 8601; with a time where the text has one."""
    URL = "url"
    """An absolute URL."""
    BOOL = "bool"
    EXISTS = "exists"
    """`true` if anything matched."""
    JSON = "json"
    """The value itself where the page is JSON; otherwise the text, parsed as JSON."""


class FieldSpec(Part, frozen=True, kw_only=True):
    """A field or a group of fields in the long form, where one text is not enough."""

    select: Expression | None = None
    """Selector in any language, which is recognised by its beginning."""
    css: Expression | None = None
    xpath: Expression | None = None
    json: Expression | None = None
    """JSON path; beside another selector it is applied to the JSON in the matched text."""
    attr: Annotated[str, Meta(pattern=r"^[A-Za-z_][\w:.-]*$")] | None = None
    regex: Expression | None = None
    """Regular expression to search for in the text; its first group is taken, or the whole
    match."""
    type: ValueType | None = None
    format: Expression | None = None
    """Format of a date, as for `strptime`."""
    many: bool | None = None
    """Take all matches as a list, not only the first."""
    default: Any = None
    fields: dict[str, Any] | None = None
    """Fields of a group: each match becomes an object with these fields."""


Step = str | int | None
"""One step of a JSON path: a key, a position, or `None` for all elements."""


class SelectorQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed selector."""

    language: Language
    expression: str = ""
    """Expression; empty for the element itself that the group matched."""
    attribute: str | None = None
    html: bool = False
    """Take the mark-up, not the text."""
    own: bool = False
    """Leave out the text of child elements."""
    path: tuple[Step, ...] = ()
    """Steps of a JSON query."""


class FieldPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One field, or a group of fields."""

    name: str
    query: SelectorQuery
    inner: tuple[Step, ...] | None = None
    """JSON path to apply to the JSON in the matched text."""
    pattern: str | None = None
    type: ValueType = ValueType.TEXT
    format: str | None = None
    many: bool = False
    default: Any = None
    fields: tuple["FieldPlan", ...] = ()
    path: str = ""
    """Name of the field in messages: `title`, or `products.title` in a group."""


class ExtractionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All fields to take from each page of a crawl."""

    flat: tuple[FieldPlan, ...] = ()
    """Fields of a flat map without a named item; each page decides which of them is the item."""
    groups: tuple[FieldPlan, ...] = ()
    page: tuple[FieldPlan, ...] = ()
    """Fields of the page as a whole, beside groups."""
    structured: bool = False

    def __bool__(self) -> bool:
        """Return whether there is anything to extract."""
        return bool(self.flat or self.groups or self.page or self.structured)


class Item(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One item found on a page."""

    kind: str
    """Key in the result, in the plural: `products`."""
    fields: Mapping[str, Any]


class EmptyFields(NamedTuple):
    """Fields that had no value in any item."""

    selectors: Mapping[str, str]
    """Selectors by field name, within groups by path; `item` is the selector of one item."""
    pages: int
    """Number of pages that were read."""
