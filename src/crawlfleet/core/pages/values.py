"""Conversion of extracted text to numbers, dates and addresses.

A text that does not convert is `None`: a page that says "sold out" in place of a price has no
price.
"""

import re
import unicodedata
from datetime import datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any, Final

import ada_url
import msgspec

from crawlfleet.core.text.nesting import is_too_deep
from crawlfleet.model.crawl.extraction import ValueType

LONGEST: Final = 10_000
"""Length of a text up to which numbers and dates are searched."""
_YES: Final = frozenset(
    {"true", "yes", "y", "on", "1", "是", "有", "有货", "现货", "in_stock", "instock", "available"}
)
_NO: Final = frozenset(
    {"false", "no", "n", "off", "0", "否", "无", "没有", "缺货", "out_of_stock", "outofstock"}
)
_NUMBER: Final = re.compile(r"[-+−]?\s?\d(?:[\d.,'’ \u00a0\u202f]*\d)?(?:[eE][-+]?\d{1,3}(?!\w))?")
_SEPARATORS: Final = re.compile(r"[ '’\u00a0\u202f]")
_GROUPED: Final = re.compile(r"\d{1,3}(?:[.,]\d{3})+\Z")
_TIMES: Final = {"万": 10_000, "亿": 100_000_000, "千": 1_000}
_PLAIN_PATH: Final = re.compile(
    r"/(?:[A-Za-z0-9_-][A-Za-z0-9_.-]*(?:/|(?=#|\Z)))*(?:#[A-Za-z0-9_.-]+)?\Z"
)
_ORIGIN: Final = re.compile(r"https?://[a-z0-9][a-z0-9.:-]*(?=/)")
"""Pattern of the most frequent links, which need no parser."""
_CHINESE_DATE: Final = re.compile(
    r"(\d{4})\s*年\s*(\d{1,2})\s*月\s*(\d{1,2})\s*日(?:\s*(\d{1,2})[:时点](\d{1,2})(?:[:分](\d{1,2}))?)?"
)
_EARLY: Final = datetime(1904, 1, 1)  # noqa: DTZ001 - what the text leaves out
_LATE: Final = datetime(2096, 12, 31)  # noqa: DTZ001


def convert(text: str, type: ValueType, *, base: str = "", format: str | None = None) -> Any:
    """Return the text as a value of the type; `None` when it is not one. Never raises.

    `base` is the address that relative links refer to, `format` that of dates.
    """
    if type is ValueType.RAW:
        return text
    if type is ValueType.TEXT:
        return " ".join(text.split())
    if type is ValueType.URL:
        return absolute(base, text)
    if type is ValueType.JSON:
        return read_json(text)
    short = " ".join(text[:LONGEST].split())
    match type:
        case ValueType.NUMBER:
            return _number(short)
        case ValueType.INTEGER:
            number = _number(short)
            return int(number) if number is not None and number == int(number) else None
        case ValueType.PRICE:
            amount = _priced(short).amount
            return None if amount is None else float(amount)
        case ValueType.CURRENCY:
            return _priced(short).currency
        case ValueType.DATE:
            return _date(short, format)
        case ValueType.BOOL:
            word = short.rpartition("/")[2].lower().replace(" ", "_")
            return True if word in _YES else False if word in _NO else None
        case _:
            return bool(text)


def _priced(text: str) -> Any:
    from price_parser import Price  # as below

    return Price.fromstring(text)


def absolute(base: str, href: str) -> str | None:
    """Return the address that a link leads to; `None` when it is not an address."""
    if (origin := _ORIGIN.match(base)) is not None:
        if href[:1] == "/":
            if _PLAIN_PATH.match(href):
                return origin[0] + href
        elif href.startswith(origin[0]) and _PLAIN_PATH.match(href, origin.end()):
            return href
    try:
        return ada_url.join_url(base, href.strip())
    except (ValueError, UnicodeEncodeError):
        return None


def read_json(text: str | bytes) -> Any:
    """Return the decoded JSON; `None` when the text is not JSON, or too deeply nested to be encoded
    again."""
    try:
        data = text.encode() if isinstance(text, str) else text
        return None if is_too_deep(data) else msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        return None


def text_of_number(value: float) -> str:
    """Return a finite number as people write it: with all of its digits, and never with an
    exponent.

    A fraction has the 15 digits that a computed number keeps of a decimal one, so that the sum of
    0.1 and 0.2 is 0.3.
    """
    if value == int(value):
        # `repr` has the shortest digits that mean this number: 1e+23 is no 99999999999999991611392.
        return format(Decimal(repr(value)).to_integral_value(), "f") if value else "0"
    return format(Decimal(f"{value:.15g}"), "f")


def strptime_works(format: str) -> bool:
    """Return whether dates can be parsed in this format."""
    try:
        datetime.strptime(_EARLY.strftime(format), format)  # noqa: DTZ007
    except ValueError:
        return False
    return "%" in format


def _number(text: str) -> float | int | None:
    text = unicodedata.normalize("NFKC", text)
    found = _NUMBER.search(text)
    if found is None:
        return None
    digits = _SEPARATORS.sub("", found[0]).replace("−", "-")
    times = _TIMES.get(text[found.end() : found.end() + 1], 1)
    try:
        value = float(_decimal(digits)) * times
    except ValueError:
        return None
    if value in {float("inf"), float("-inf")}:
        return None
    return int(value) if value == int(value) and abs(value) < 1 << 53 else value


def _decimal(digits: str) -> str:
    """Return the digits with a point before the fraction, and no separators between thousands."""
    sign, bare = (digits[0], digits[1:]) if digits[0] in "+-" else ("", digits)
    last = max(bare.rfind("."), bare.rfind(","))
    if last < 0:
        return digits
    mark = bare[last]
    other = "," if mark == "." else "."
    if other in bare or bare.count(mark) == 1:
        # One mark alone parts thousands only as a comma before three digits, as in 1,234.
        if other not in bare and mark == "," and _GROUPED.fullmatch(bare):
            return sign + bare.replace(",", "")
        return sign + bare[:last].replace(other, "").replace(mark, "") + "." + bare[last + 1 :]
    return sign + bare.replace(mark, "") if _GROUPED.fullmatch(bare) else digits


def _date(text: str, format: str | None) -> str | None:
    try:
        if format is not None:
            return _written(datetime.strptime(text, format), text)  # noqa: DTZ007
        return _iso(text) or _chinese(text) or _mail(text) or _loose(text)
    except (ValueError, OverflowError, TypeError, AttributeError):
        return None


def _iso(text: str) -> str | None:
    try:
        return _written(datetime.fromisoformat(text), text)
    except ValueError:
        return None


def _chinese(text: str) -> str | None:
    found = _CHINESE_DATE.search(text)
    if found is None:
        return None
    numbers = [int(part) for part in found.groups() if part is not None]
    return _written(datetime(*numbers), found[0])  # type: ignore[arg-type] # noqa: DTZ001


def _mail(text: str) -> str | None:
    try:
        return _written(parsedate_to_datetime(text), text)
    except (ValueError, TypeError, IndexError):
        return None


def _loose(text: str) -> str | None:
    """Parse a date in free form; `None` unless it has a day, a month and a year."""
    if not any(char.isdigit() for char in text):
        return None
    from dateutil import parser as dates  # takes a while, and few crawls need it

    first = dates.parse(text[:100], default=_EARLY)
    if first != dates.parse(text[:100], default=_LATE):
        return None
    return _written(first, text)


def _written(moment: datetime, text: str) -> str:
    has_time = ":" in text or "时" in text or "点" in text or moment.time() != _EARLY.time()
    return moment.isoformat() if has_time else moment.date().isoformat()
