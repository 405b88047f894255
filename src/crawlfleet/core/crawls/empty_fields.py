"""Empty fields of a crawl: fields for which no item had a value, so that their selectors are likely
wrong.

After a change of a site's mark-up, or with a typing error in a selector, items look right and lack
something. People do not see that among thousands of items, so the crawl reports it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from crawlfleet.core.pages.selectors import plural
from crawlfleet.model.crawl.extraction import (
    PAGES,
    EmptyFields,
    ExtractionPlan,
    FieldPlan,
    Item,
    SelectorQuery,
)

ENOUGH_PAGES: Final = 20
"""Number of pages after which a field without a value is reported; with fewer pages it may be
chance."""
MAX_NAMED: Final = 10
"""Limit of fields that a message names."""
LONGEST_SELECTOR: Final = 100
"""Number of characters of a selector that a message shows."""


def fields_of(plan: ExtractionPlan) -> tuple[str, ...]:
    """Return the names of all fields of a plan; for fields within groups their paths."""
    names: list[str] = []
    fields = [*plan.flat, *plan.groups, *plan.page]
    for field in fields:
        names.append(field.path)
        fields += field.fields
    return tuple(names)


def selectors_of(plan: ExtractionPlan, names: Collection[str]) -> dict[str, str]:
    """Return the selectors of these fields; for a group among them, not those of the fields within
    it."""
    found: dict[str, str] = {}
    fields = [*plan.flat, *plan.groups, *plan.page]
    for field in fields:
        if field.path in names:
            found[field.path] = _written(field.query)[:LONGEST_SELECTOR]
        else:
            fields += field.fields
    return found


def still_empty(
    plan: ExtractionPlan, empty: Sequence[str], items: Iterable[Item]
) -> tuple[str, ...]:
    """Return those of the `empty` fields for which none of these items has a value either."""
    left = dict.fromkeys(empty)
    for item in items:
        if not left:
            break
        for group in plan.groups:
            if group.name == item.kind:
                left.pop(group.path, None)
                _meet(group.fields, item.fields, left)
        if item.kind == PAGES:
            _meet(plan.page, item.fields, left)
        _meet(plan.flat, item.fields, left)
        for field in plan.flat:
            # The key that is the item on its page is no field of it.
            is_item = field.path in left and field.name not in item.fields
            if is_item and plural(field.name) == item.kind:
                del left[field.path]
    return tuple(left)


def in_words(empty: EmptyFields) -> str:
    """Return the warning about empty fields, as text for people."""
    shown = [f"{name} ({selector})" for name, selector in empty.selectors.items()]
    more = f" and {len(shown) - MAX_NAMED} more" if len(shown) > MAX_NAMED else ""
    pages = "1 page" if empty.pages == 1 else f"{empty.pages} pages"
    return f"nothing is caught on {pages} by {', '.join(shown[:MAX_NAMED])}{more}"


def has_value(field: FieldPlan, value: Any) -> bool:
    """Return whether a value was found for a field; zero is a value."""
    return value is not None and value is not False and value != [] and value != field.default


def _written(query: SelectorQuery) -> str:
    """Return a query as people write it."""
    ending = "::html" if query.html else "::own" if query.own else ""
    return query.expression + (f"@{query.attribute}" if query.attribute else ending) or "::text"


def _meet(fields: Sequence[FieldPlan], values: Mapping[str, Any], left: dict[str, None]) -> None:
    """Remove the fields that have a value from `left`."""
    for field in fields:
        value = values.get(field.name)
        if not field.fields:
            if field.path in left and has_value(field, value):
                del left[field.path]
        elif has_value(field, value):
            left.pop(field.path, None)
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, Mapping):
                    _meet(field.fields, each, left)
