"""Credentials in parameters: refused where they are written out, and found where they are named."""

from typing import Any

import msgspec
import pytest

from crawlfleet.core.tasks import credentials
from crawlfleet.core.tasks.credentials import (
    declared_problems,
    filled,
    filled_url,
    names_in,
    problems_of,
)
from crawlfleet.model.crawl.parameters import Fetching


def crawl(*urls: str, **fetching: Any) -> dict[str, Any]:
    return {
        "url": "https://a.example/",
        "sinks": [{"url": url} for url in urls],
        "fetching": fetching,
    }


def fields(task_type: str, parameters: dict[str, Any], **options: Any) -> list[str]:
    return [each.field for each in problems_of(task_type, parameters, **options)]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter22@db.example/shop",
        "postgresql://me:hunter22@db.example:5432/shop?table=x",
        "postgres://:hunter22@db.example/shop",
        "postgresql://me:hunter${secret:PG}@db.example/shop",
        "postgresql://me:hun/ter22@db.example/shop",
        "postgresql://me:hunter#22@db.example/shop",
        "postgresql://me:hunter?22@db.example/shop",
        "postgresql://me:hunter@22@db.example/shop",
        "postgresql://me@db.example/shop?password=hunter22",
        "parquet://bucket/x?secret_key=hunter22&part=1",
        "POSTGRESQL://me:hunter22@db.example/shop",
    ],
)
def test_a_password_that_is_written_out_is_refused_and_not_repeated(url: str) -> None:
    (problem,) = problems_of("web_crawl", crawl(url))
    assert problem.field == "sinks[0].url"
    assert "${secret:NAME}" in problem.remedy
    assert "hunter" not in repr(problem)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me@db.example/shop",
        "postgresql://me:${secret:PG}@db.example/shop?table=x",
        "postgresql://${secret:USER}:${secret:PG}@db.example/shop",
        "parquet://bucket/x?secret_key=${secret:KEY}",
        "items.jsonl",
        "a:b@c.jsonl",
        "file:///data/items.csv",
        "sqlite:///shop.db?table=me:x@y",
        "fleet:items",
    ],
)
def test_what_is_no_password_may_stand_there(url: str) -> None:
    assert fields("web_crawl", crawl(url)) == []


@pytest.mark.parametrize(
    ("proxy", "is_refused"),
    [
        ("http://me:hunter22@proxy.example:3128", True),
        ("socks5://me:hunter22@proxy.example", True),
        ("me:hunter22@proxy.example:3128", True),
        ("http://me:${secret:PROXY}@proxy.example:3128", False),
        ("http://proxy.example:3128", False),
    ],
)
def test_the_password_of_a_proxy_is_refused(proxy: str, is_refused: bool) -> None:
    assert fields("web_crawl", crawl(proxy=proxy)) == ["fetching.proxy"] * is_refused


@pytest.mark.parametrize(
    ("name", "value", "is_refused"),
    [
        ("Authorization", "Bearer abcdefgh", True),
        ("authorization", "Basic bWU6cHc=", True),
        ("PROXY-Authorization", "Basic bWU6cHc=", True),
        ("Authorization", "Bearer ${secret:TOKEN}", False),
        ("Authorization", "", False),
        ("Cookie", "language=de", False),
        ("Accept-Language", "de", False),
    ],
)
@pytest.mark.parametrize("task_type", ["web_crawl", "http_fetch"])
def test_headers_that_are_credentials_are_refused(
    task_type: str, name: str, value: str, is_refused: bool
) -> None:
    headers = {name: value}
    given = (
        {"headers": headers} if task_type == "http_fetch" else {"fetching": {"headers": headers}}
    )
    place = "headers" if task_type == "http_fetch" else "fetching.headers"
    assert fields(task_type, given) == [f"{place}.{name}"] * is_refused


@pytest.mark.parametrize(
    ("address", "is_refused"),
    [
        ("https://me:hunter22@a.example/x", True),
        (" HTTP://:hunter22@a.example", True),
        ("https://me@a.example/", False),
        ("https://me:@a.example/", False),
        ("https://a.example:8080/@me", False),
        ("https://a.example?x=a:b@c", False),
        ("https://a.example/a:b@c", False),
        ("x", False),
    ],
)
@pytest.mark.parametrize("task_type", ["web_crawl", "http_fetch"])
def test_the_password_of_an_address_is_refused(
    task_type: str, address: str, is_refused: bool
) -> None:
    assert fields(task_type, {"url": address}) == ["url"] * is_refused
    assert fields(task_type, {"urls": ["https://b.example/", address]}) == ["urls[1]"] * is_refused


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"url": "https://a.example/?k=${secret:KEY}"}, "url"),
        ({"selectors": {"x": ["${secret:KEY}"]}}, "selectors.x[0]"),
        (crawl("${secret:KEY}"), "sinks[0].url"),
        (crawl("${secret:KEY}://a/b"), "sinks[0].url"),
        (crawl("postgresql://me@${secret:KEY}/b"), "sinks[0].url"),
        (crawl("postgresql://me@a/${secret:KEY}"), "sinks[0].url"),
        (crawl("/data/${secret:KEY}.jsonl"), "sinks[0].url"),
        (crawl("parquet://a/b?${secret:KEY}=1"), "sinks[0].url"),
        (crawl(headers={"${secret:KEY}": "x"}), "fetching.headers.${secret:KEY} (its name)"),
        (crawl(headers={"X-Key": "a ${secret:KEY b"}), "fetching.headers.X-Key"),
        (crawl(user_agent="${secret:KEY}"), "fetching.user_agent"),
    ],
)
def test_a_reference_that_nothing_is_put_in_place_of_is_refused(
    parameters: dict[str, Any], field: str
) -> None:
    assert field in fields("web_crawl", parameters)


def test_the_code_of_other_people_may_have_a_syntax_of_its_own() -> None:
    assert fields("python", {"kwargs": {"x": "${secret:KEY}", "headers": {}}}) == []
    assert names_in("python", b'{"kwargs": {"x": "${secret:KEY}"}}') == ()


def test_expressions_of_a_workflow_are_judged_when_they_are_computed() -> None:
    given = crawl(
        "postgresql://me:${parameters.password}@db.example/shop",
        headers={"Authorization": "${steps.login.result.token}"},
    )
    assert fields("web_crawl", given, is_template=True) == []
    assert len(fields("web_crawl", given)) == 2
    assert fields("web_crawl", crawl(proxy="http://a:b@c"), is_template=True) == ["fetching.proxy"]


def test_secrets_that_parameters_refer_to_are_given_to_the_task_each_once() -> None:
    given = crawl(
        "postgresql://${secret:USER}:${secret:PG}@db.example/shop",
        proxy="http://me:${secret:PG}@proxy.example",
        headers={"X-Key": "a ${secret:KEY} b"},
    )
    assert names_in("web_crawl", msgspec.json.encode(given)) == ("USER", "PG", "KEY")
    assert names_in("http_fetch", b'{"headers": {"A": "${secret:KEY}"}}') == ("KEY",)
    assert names_in("web_crawl", b'["${secret:KEY}"]') == ()
    assert names_in("web_crawl", b'{"secret:') == ()


def test_an_unknown_secret_is_refused_with_the_field_that_names_it() -> None:
    raw = msgspec.json.encode(crawl(headers={"X-Key": "${secret:NO_SUCH}${secret:bad name}"}))
    found = [*declared_problems("web_crawl", raw, ("OTHER",), "shop", {"OTHER"})]
    assert [each.field for each in found] == ["parameters.fetching.headers.X-Key"] * 2
    assert "no secret of the project 'shop'" in found[0].message
    assert "is not the name of a secret" in found[1].message
    known = [*declared_problems("web_crawl", raw, (), "shop", {"NO_SUCH", "bad name"})]
    assert len(known) == 1


def test_declared_and_referred_secrets_count_together() -> None:
    names = {f"S{number}" for number in range(40)}
    raw = msgspec.json.encode({"headers": {name: f"${{secret:{name}}}" for name in names}})
    found = [*declared_problems("http_fetch", raw, (), "shop", names)]
    assert [each.field for each in found] == ["parameters"]


VALUE = "p@ss:w/rd?#[]&x=%20${secret:OTHER}"


def test_a_value_can_end_nothing_and_begin_nothing_in_a_url() -> None:
    secrets = {"PG": VALUE, "OTHER": "must not come in"}
    url = filled_url("postgresql://me:${secret:PG}@db.example/shop", secrets)
    assert url == (
        "postgresql://me:p%40ss%3Aw%2Frd%3F%23%5B%5D%26x%3D%2520%24%7Bsecret%3AOTHER%7D"
        "@db.example/shop"
    )
    assert filled("Bearer ${secret:PG}", secrets) == f"Bearer {VALUE}"


def test_the_way_of_requests_is_filled_in() -> None:
    fetching = Fetching(proxy="http://me:${secret:P}@a", headers={"A": "${secret:P}", "B": "b"})
    done = credentials.filled_fetching(fetching, {"P": "a b"})
    assert (done.proxy, done.headers) == ("http://me:a%20b@a", {"A": "a b", "B": "b"})
    with pytest.raises(KeyError):
        credentials.filled_fetching(fetching, {})
