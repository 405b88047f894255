"""Splitting of tasks into shards.

For each task type whose executors share work, a rule here makes the parameters of the shards from
those of the whole task. In everything else a shard is like its parent.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

import msgspec

from crawlfleet.core.tasks.rendezvous import MAX_SHARDS, split_by_host
from crawlfleet.core.urls.host_parts import parts_for
from crawlfleet.model.crawl.parameters import Limits, Politeness, Scope
from crawlfleet.model.crawl.user_code import ScrapyParameters

MAX_SHARDS_AT_ONCE: Final = 10_000
"""Limit of shards in one submission, however many tasks it has: all shards are created in one
commit."""

Divide = Callable[[msgspec.Raw], tuple[msgspec.Raw, ...]]
"""Function that returns the parameters of the shards from valid parameters of the whole; none of
them, or one, when the task stays whole."""


class _Fetches(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of `http_fetch` that determine its split."""

    urls: tuple[str, ...] = ()
    shards: int = 1
    delay_s: float = 1.0
    concurrency: int = 1


class _Sink(msgspec.Struct, frozen=True, kw_only=True):
    url: str = ""


class _Crawl(msgspec.Struct, frozen=True, kw_only=True):
    url: str | None = None
    urls: tuple[str, ...] = ()
    scope: Scope = Scope()
    limits: Limits = Limits()
    politeness: Politeness = Politeness()
    workers: int = 1
    split_hosts: int | None = None
    frontier: str | None = None
    sinks: tuple[_Sink, ...] = ()

    @property
    def parts(self) -> int:
        """Number of parts of each host."""
        return parts_for(
            seeds=(*((self.url,) if self.url else ()), *self.urls),
            within=self.scope.within,
            workers=self.workers,
            politeness=self.politeness,
            max_per_host=self.limits.max_per_host,
            most=self.split_hosts,
        )

    @property
    def is_shared(self) -> bool:
        """True if the crawl's frontier and output are with the master, where several executions can
        use them."""
        own = any(not sink.url.startswith("fleet:") for sink in self.sinks)
        return self.frontier != "node" and not own


def divide(
    task_type: str, parameters: msgspec.Raw, rules: Mapping[str, Divide]
) -> tuple[msgspec.Raw, ...]:
    """Return the parameters of each shard; empty when the task stays whole."""
    rule = rules.get(task_type)
    parts = rule(parameters) if rule is not None else ()
    if len(parts) > MAX_SHARDS:
        raise ValueError(f"{task_type}: {len(parts)} shards are more than {MAX_SHARDS}")
    return parts if len(parts) > 1 else ()


def _divide_fetches(parameters: msgspec.Raw) -> tuple[msgspec.Raw, ...]:
    """Split a list of URLs by host; empty if there would be only one shard. A host without a
    delay can be in several shards, which then share its limit of concurrent requests."""
    if b'"shards"' not in memoryview(parameters).tobytes():
        return ()
    wanted = msgspec.json.decode(parameters, type=_Fetches)
    most_parts = 1 if wanted.delay_s > 0 else wanted.concurrency
    lists = split_by_host(wanted.urls, wanted.shards, most_parts=most_parts)
    if len(lists) < 2:
        return ()
    rest = msgspec.json.decode(parameters, type=dict[str, msgspec.Raw])
    del rest["shards"]
    if most_parts > 1:
        each = max(wanted.concurrency // min(most_parts, len(lists)), 1)
        rest["concurrency"] = msgspec.Raw(str(each).encode())
        rest["total_concurrency"] = msgspec.Raw(str(wanted.concurrency).encode())
    return tuple(_with(rest, urls=urls) for urls in lists)


def _divide_crawl(parameters: msgspec.Raw, *, has_ledger: bool) -> tuple[msgspec.Raw, ...]:
    """Split a crawl. All shards share one frontier: each shard is the whole crawl, done by one
    worker. It gets the number of workers, since these share the limits of a domain, and the number
    of parts of a host, which stays fixed for the life of the crawl. A crawl whose frontier or
    output is on a node stays there, with as many processes."""
    if b'"workers"' not in memoryview(parameters).tobytes():
        return ()
    wanted = msgspec.json.decode(parameters, type=_Crawl)
    if wanted.workers < 2 or not wanted.is_shared:
        return ()
    parts = wanted.parts if has_ledger else 1
    if parts != (wanted.split_hosts or 1):
        rest = msgspec.json.decode(parameters, type=dict[str, msgspec.Raw])
        parameters = _with(rest, split_hosts=parts)
    return (parameters,) * wanted.workers


def _divide_spider(parameters: msgspec.Raw, *, has_ledger: bool) -> tuple[msgspec.Raw, ...]:
    """Split a spider: each shard is the whole spider. Hosts stay whole if there is no ledger to
    keep several workers within their limits."""
    if b'"workers"' not in memoryview(parameters).tobytes():
        return ()
    wanted = msgspec.json.decode(parameters, type=ScrapyParameters)
    if wanted.workers < 2:
        return ()
    rest = msgspec.json.decode(parameters, type=dict[str, msgspec.Raw])
    parts = (wanted.split_hosts or 1) if has_ledger else 1
    return (_with(rest, distributed=True, split_hosts=parts),) * wanted.workers


def _with(rest: Mapping[str, msgspec.Raw], **changed: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({**rest, **changed}))


RULES: Final[Mapping[str, Divide]] = MappingProxyType(
    {
        "http_fetch": _divide_fetches,
        "web_crawl": partial(_divide_crawl, has_ledger=True),
        "scrapy_spider": partial(_divide_spider, has_ledger=True),
    }
)
WITHOUT_LEDGER: Final[Mapping[str, Divide]] = MappingProxyType(
    {
        **RULES,
        "web_crawl": partial(_divide_crawl, has_ledger=False),
        "scrapy_spider": partial(_divide_spider, has_ledger=False),
    }
)
"""Rules of a fleet without a ledger: each shard keeps politeness by itself, so no two shards may
visit one host."""
