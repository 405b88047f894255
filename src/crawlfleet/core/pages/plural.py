"""The English plural of a key: `product` is one of `products`."""

from typing import Final

_ODD: Final = {
    "person": "people",
    "child": "children",
    "man": "men",
    "woman": "women",
    "series": "series",
    "news": "news",
    "data": "data",
    "media": "media",
    "people": "people",
    "children": "children",
}


def plural(name: str) -> str:
    """The name in the plural; one that is in the plural, or no English word, stays as it is."""
    head, _, last = name.rpartition("_")
    word = last.lower()
    if not word.isascii() or not word[-1:].isalpha():
        return name
    if word in _ODD:
        made = _ODD[word]
    elif word.endswith(("ss", "sh", "ch", "x", "z")):
        made = f"{last}es"
    elif word.endswith("s"):
        made = last
    elif word.endswith("y") and word[-2:-1] not in {"a", "e", "i", "o", "u"}:
        made = f"{last[:-1]}ies"
    else:
        made = f"{last}s"
    return f"{head}_{made}" if head else made
