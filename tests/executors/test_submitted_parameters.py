"""What could not be fetched is refused when it is submitted, and nothing else is."""

from typing import Any, Final

import msgspec
import pytest

from crawlfleet.core.tasks.admission import AdmissionRules, problems_of
from crawlfleet.executors.extract import Extract
from crawlfleet.executors.http_fetch import HttpFetch
from crawlfleet.executors.web_crawl import WebCrawl
from crawlfleet.features.workflows.rules import document, validation
from crawlfleet.model.requests import TaskRequest

EXECUTORS: Final[dict[str, Any]] = {
    "extract": Extract,
    "http_fetch": HttpFetch,
    "web_crawl": WebCrawl,
}
RULES: Final = AdmissionRules(
    strategies=(),
    parameter_types={name: each.Parameters for name, each in EXECUTORS.items()},
    parameter_checks={name: each.problems for name, each in EXECUTORS.items()},
)
NO_ADDRESSES: Final = ["x", "", "ftp://a/", "http://", "javascript:1", "/path", "http://a b/"]
ADDRESSES: Final = [
    "http://a",
    "https://a.example/x?y#z",
    "HTTP://A.Example:8080",
    "http://user@a.example/",
    "http://127.0.0.1:8000/",
    "http://[::1]/",
    "https://bücher.example/ü ü",
    " https://a.example/ ",
]


def refused(task_type: str, parameters: Any) -> list[tuple[str, str, str]]:
    request = TaskRequest(
        task_type=task_type, parameters=msgspec.Raw(msgspec.json.encode(parameters))
    )
    return [(each.field, each.message, each.remedy) for each in problems_of(request, RULES)]


@pytest.mark.parametrize("url", NO_ADDRESSES)
@pytest.mark.parametrize("task_type", EXECUTORS)
def test_what_is_no_address_is_refused(task_type: str, url: str) -> None:
    ((field, message, remedy),) = refused(task_type, {"url": url})

    assert field == "parameters.url"
    assert message in {"is not an address of the web", "is missing"}
    assert remedy


@pytest.mark.parametrize("url", ADDRESSES)
@pytest.mark.parametrize("task_type", EXECUTORS)
def test_what_can_be_fetched_is_accepted(task_type: str, url: str) -> None:
    assert not refused(task_type, {"url": url})


def test_each_seed_that_is_no_address_is_named() -> None:
    seeds = {"url": "y", "urls": ["https://a.example", "x"]}

    fields = [field for field, *_ in refused("web_crawl", seeds)]

    assert fields == ["parameters.url", "parameters.urls[1]"]


def test_a_crawl_begins_somewhere() -> None:
    assert refused("web_crawl", {}) == [("parameters.url", "is missing", "name where to begin")]


def test_the_addresses_of_a_list_have_each_their_own_outcome() -> None:
    assert not refused("http_fetch", {"urls": ["x", "https://a.example/"]})


def test_a_fetch_of_nothing_is_told_what_to_send() -> None:
    assert refused("http_fetch", {}) == [
        ("parameters", "has neither a `url` nor `urls`, or both", "send one of the two")
    ]


def test_headers_that_cannot_be_sent_are_refused() -> None:
    parameters = {"url": "https://a.example/", "headers": {"Host": "b.example"}}

    ((field, message, _),) = refused("http_fetch", parameters)

    assert field == "parameters.headers"
    assert "Host" in message


@pytest.mark.parametrize("task_type", ["http_fetch", "web_crawl"])
def test_an_address_that_a_workflow_fills_in_later_is_accepted(task_type: str) -> None:
    step = {"task_type": task_type, "parameters": {"url": "${parameters.where}"}}
    raw = {"name": "w", "parameters": {"where": {"type": "text"}}, "steps": {"fetch": step}}

    read, problems = document.read(msgspec.json.encode(raw))

    assert read is not None, problems
    assert not validation.problems_of(read, RULES)
