"""What the form for new work calls its fields: in each language, and for fields that there are."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from crawlfleet import plugins
from crawlfleet.api.docs.field_docs import whole_schema
from crawlfleet.compose.master import BUILT_IN_TASK_TYPES
from crawlfleet.model.crawl.user_code import CommandParameters, ScrapyParameters

WORDS = Path(__file__).parents[2] / "dashboard" / "src" / "i18n" / "fields"
ENGLISH: dict[str, dict[str, Any]] = json.loads((WORDS / "en.json").read_text("utf-8"))
CHINESE: dict[str, dict[str, Any]] = json.loads((WORDS / "zh.json").read_text("utf-8"))
PAGES_OWN = re.compile(r"(type|task|http_fetch)\.|(output|fleet)$")
"""Sections of the page, and fields of a task rather than of its parameters."""


def fields() -> dict[str, dict[str, Any]]:
    """Every field of the parameters of every type that comes with the package, by its path."""
    found: dict[str, dict[str, Any]] = {}
    own = [plugins.load_one(plugins.EXECUTORS, name).Parameters for name in BUILT_IN_TASK_TYPES]
    for parameters in (*own, CommandParameters, ScrapyParameters):
        schema = whole_schema(parameters)
        walk(schema, schema["$defs"], "", found)
    return found


def walk(schema: dict[str, Any], defs: dict[str, Any], above: str, found: dict[str, Any]) -> None:
    for name, field in defs[schema["$ref"].rpartition("/")[2]]["properties"].items():
        path = f"{above}.{name}" if above else name
        found.setdefault(path, field)
        for inner in (field, field.get("items", {}), *field.get("anyOf", ())):
            if "$ref" in inner:
                walk(inner, defs, path, found)
                found[path] = defs[inner["$ref"].rpartition("/")[2]] | field


def test_every_field_says_what_it_is_for() -> None:
    silent = [path for path, field in fields().items() if not field.get("description")]
    assert not silent, "write a text under these fields: the form and the API show it"


def test_the_languages_speak_of_the_same_fields() -> None:
    assert ENGLISH.keys() == CHINESE.keys()
    for path, words in ENGLISH.items():
        assert words["label"].strip()
        assert CHINESE[path]["label"].strip()
        assert words.get("choices", {}).keys() == CHINESE[path].get("choices", {}).keys()
        assert words.keys() <= CHINESE[path].keys()


def test_words_are_there_for_fields_that_there_are() -> None:
    known = fields()
    names = {path.rpartition(".")[2] for path in known}
    stale = [
        path
        for path in ENGLISH
        if not PAGES_OWN.match(path) and path not in known and path not in names
    ]
    assert not stale


def test_every_choice_has_words() -> None:
    unsaid = {
        f"{path}: {choice}"
        for path, field in fields().items()
        if ENGLISH.get(path, {}).get("choices")
        for choice in choices(field)
        if choice not in ENGLISH[path]["choices"]
    }
    assert not unsaid


def choices(field: dict[str, Any]) -> list[str]:
    kinds = (field, *field.get("anyOf", ()))
    return [each for kind in kinds for each in kind.get("enum", ()) if each is not None]


def test_what_english_explains_is_explained_in_chinese() -> None:
    unsaid = [
        path
        for path, field in fields().items()
        if path in CHINESE and field.get("description") and not CHINESE[path].get("hint")
    ]
    assert not unsaid


@pytest.mark.parametrize("path", ["urls", "depth", "limits.max_pages", "scope.within", "selectors"])
def test_what_everybody_fills_in_has_words(path: str) -> None:
    assert path in fields()
    assert path in ENGLISH
