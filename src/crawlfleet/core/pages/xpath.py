"""XPath expressions whose time grows only with the length of the page.

XPath can compare everything with everything: `//a[count(//b) > 1]` takes the square of the page,
and the engine has no limit for that. An expression is harmless if it goes down once and looks at
names, attributes and positions on its way. Other expressions may be harmless too, but that is not
worked out.
"""

import re
from typing import Final

import msgspec

from crawlfleet.model.crawl.extraction import ExtractionPlan, FieldPlan, Language

_NAME: Final = r"[A-Za-z_][\w.-]*"
_TEXT: Final = r"(?:\"[^\"]*\"|'[^']*')"
_VALUE: Final = rf"(?:@{_NAME}|normalize-space\(@{_NAME}\)|{_TEXT}|\d+|position\(\)|last\(\))"
_TEST: Final = (
    rf"(?:{_VALUE}(?:\s*(?:=|!=|<|>|<=|>=|-)\s*{_VALUE})?"
    rf"|(?:contains|starts-with)\(\s*{_VALUE}\s*,\s*{_TEXT}\s*\))"
)
_PREDICATE: Final = rf"(?:\[\s*{_TEST}(?:\s+(?:and|or)\s+{_TEST})*\s*\])"
_STEP: Final = rf"(?:{_NAME}|\*|@{_NAME}|@\*|text\(\)){_PREDICATE}*"
_HARMLESS: Final = re.compile(rf"\.?//?{_STEP}(?:/{_STEP})*", re.ASCII)
NOTHING: Final = "/.."
"""Expression that finds nothing: the root has no parent."""


def is_harmless(expression: str) -> bool:
    """Return whether the expression takes time in proportion to the page, whatever the page is."""
    return _HARMLESS.fullmatch(expression.strip()) is not None


def needs_care(plan: ExtractionPlan) -> bool:
    """Return whether the plan could take very long on some page."""
    fields = (*plan.flat, *plan.groups, *plan.page)
    return any(_is_dear(field) for field in fields)


def without_xpath(plan: ExtractionPlan) -> ExtractionPlan:
    """Return the plan with its XPath queries emptied, so that they find nothing."""
    return msgspec.structs.replace(
        plan,
        flat=tuple(map(_emptied, plan.flat)),
        groups=tuple(map(_emptied, plan.groups)),
        page=tuple(map(_emptied, plan.page)),
    )


def _is_dear(field: FieldPlan) -> bool:
    if field.query.language is not Language.XPATH:
        return any(_is_dear(inner) for inner in field.fields)
    # In a group each field is looked for in each match, and matches may lie within each other.
    return bool(field.fields) or not is_harmless(field.query.expression)


def _emptied(field: FieldPlan) -> FieldPlan:
    query = field.query
    if query.language is Language.XPATH:
        query = msgspec.structs.replace(query, expression=NOTHING)
    return msgspec.structs.replace(field, query=query, fields=tuple(map(_emptied, field.fields)))
