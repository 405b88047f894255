"""A spider of a Scrapy project, run as `scrapy crawl` runs it.

Items are taken where Scrapy's own feeds take them, and written by its own exporter of JSON lines:
so they are those of `scrapy crawl -o items.jsonl`, to the letter.
"""

import contextlib
import io
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .frontier import Frontier
from .job import Work
from .ledger import Ledger
from .parents import Parentage
from .protocol import Failed, LogLines
from .scheduler import Scheduler

LISTENERS = ("TELNETCONSOLE_ENABLED", "REMOTE_CONTROL_ENABLED")
"""Settings of Scrapy's servers that run the code of any client: by telnet, and from 2.19 on by HTTP
as well. They are off unless the `settings` of a task turn them on."""
FIGURES_EVERY_S = 1.0
TICK_S = 0.25


class Spider(Work):
    """Implements `Work`."""

    _process: Any = None
    _reactor: Any = None
    _frontier: Frontier | None = None
    _ledger: Ledger | None = None
    _has_failed = False

    def run(self) -> tuple[Any, dict[str, float]]:
        sys.path.insert(0, str(Path.cwd()))
        if module := self.parameters.get("settings_module"):
            os.environ["SCRAPY_SETTINGS_MODULE"] = module
        crawler, process = self._prepared()
        troubles: list[Any] = []
        crawl = process.crawl(crawler, **(self.parameters.get("arguments") or {}))
        crawl.addErrback(troubles.append)
        # Only now: the project's settings have said which reactor it is.
        from twisted.internet import reactor, task

        self._reactor = reactor
        task.LoopingCall(self._tell, crawler).start(FIGURES_EVERY_S)
        if self._frontier is not None:
            task.LoopingCall(self._tick, crawler).start(TICK_S, now=False)
        if self.is_cancelled.is_set():
            process.stop()
        if not troubles:
            process.start(install_signal_handlers=False)
        if self._ledger is not None:
            self._ledger.close()
        trouble = getattr(self._scheduler(crawler), "trouble", None)
        if failures := [*([trouble] if trouble else []), *(each.value for each in troubles)]:
            raise failures[0]
        self._tell(crawler, is_final=True)
        self.items.finish()
        return self._outcome(crawler)

    def _prepared(self) -> tuple[Any, Any]:
        try:
            from scrapy import signals
            from scrapy.crawler import CrawlerProcess
            from scrapy.utils.project import get_project_settings
        except ImportError as error:
            raise Failed(f"there is no Scrapy in the bundle: {error}", "invalid") from error
        settings = get_project_settings()
        for each in LISTENERS:
            settings.set(each, False, priority="cmdline")
        settings.setdict(self.parameters.get("settings") or {}, priority="cmdline")
        self._keep_log(settings)
        if self.parameters.get("distributed"):
            self._share(settings)
        self._process = process = CrawlerProcess(settings, install_root_handler=False)
        name = self.parameters["spider"]
        try:
            crawler = process.create_crawler(name)
        except KeyError:
            known = ", ".join(sorted(process.spider_loader.list())) or "none"
            raise Failed(
                f"parameters.spider: there is no spider {name!r}; there are: {known}", "invalid"
            ) from None
        write = line_writer(settings)

        def take(item: Any, response: Any = None) -> None:
            if self._frontier is None:
                self.items.put(*write(item))
            else:
                crawler.crawlfleet_scheduler.take_item(*write(item), response)

        def note(response: Any, request: Any) -> None:
            if self._frontier is not None:
                crawler.crawlfleet_scheduler.note_status(response, request)

        self._heard = take, note  # signals hold them weakly
        crawler.signals.connect(take, signal=signals.item_scraped)
        crawler.signals.connect(note, signal=signals.response_received)
        if self._frontier is not None:
            self._frontier.items.spent = lambda: spent(counted(crawler))
        return crawler, process

    def _share(self, settings: Any) -> None:
        """Have requests wait at the master, in place of Scrapy's own queues and filter, and for
        the fleet's ledger."""

        def post(call: Callable[[], None]) -> None:
            from twisted.internet import reactor

            reactor.callFromThread(call)

        def later(seconds: float, call: Callable[[], None]) -> None:
            from twisted.internet import reactor

            reactor.callLater(seconds, call)

        parts = self.parameters.get("split_hosts") or 1
        Scheduler.parts = parts = parts if self.wire.is_part else 1
        self._frontier = Scheduler.frontier = Frontier(self.wire, self.takes)
        self._ledger = Scheduler.ledger = Ledger(
            self.wire,
            self.takes,
            post=post,
            later=later,
            is_needed=parts > 1,
            longest_s=settings.getfloat("DOWNLOAD_TIMEOUT") or 180.0,
        )
        settings.set("SCHEDULER", Scheduler, priority="cmdline")
        settings.set("DUPEFILTER_CLASS", "scrapy.dupefilters.BaseDupeFilter", priority="cmdline")
        middlewares = {**settings.getdict("SPIDER_MIDDLEWARES"), Parentage: -1_000_000}
        settings.set("SPIDER_MIDDLEWARES", middlewares, priority="cmdline")

    def _tick(self, crawler: Any) -> None:
        scheduler = self._scheduler(crawler)
        if scheduler is None or self._has_failed:
            return
        scheduler.tick()
        if scheduler.trouble is not None:
            self._has_failed = True
            if self._ledger is not None:
                self._ledger.give_up()
            self._process.stop()

    @staticmethod
    def _scheduler(crawler: Any) -> Scheduler | None:
        made: Scheduler | None = getattr(crawler, "crawlfleet_scheduler", None)
        return made

    @property
    def _count(self) -> int:
        return self.items.count if self._frontier is None else self._frontier.items.count

    def _pages(self, stats: dict[str, Any]) -> Any:
        if self._frontier is not None:
            return self._frontier.items.pages
        return stats.get("response_received_count", 0)

    def _outcome(self, crawler: Any) -> tuple[Any, dict[str, float]]:
        stats = {key: plain(value) for key, value in sorted(counted(crawler).items())}
        took = spent(stats) if self._frontier is None else self._frontier.items.spent_in_all()
        metrics = {
            "items": self._count,
            "pages_crawled": self._pages(stats),
            "requests": took.get("requests", 0),
            "data_size": took.get("bytes", 0),
            "errors": stats.get("log_count/ERROR", 0),
        }
        result = {
            "spider": self.parameters["spider"],
            "finish_reason": stats.get("finish_reason", ""),
            "items": self._count,
            "stats": stats,
        }
        return result, {name: value for name, value in metrics.items() if is_number(value)}

    def _tell(self, crawler: Any, is_final: bool = False) -> None:
        stats = counted(crawler)
        took = spent(stats) if self._frontier is None else self._frontier.items.spent_in_all()
        figures = {
            "at": time.time(),
            "is_final": is_final,
            "items": self._count,
            "pages": self._pages(stats),
            **took,
            "failed": stats.get("downloader/exception_count", 0),
        }
        if self._frontier is not None:
            figures["waiting"] = self._frontier.waiting
        self.wire.say("figures", figures=figures)

    def _keep_log(self, settings: Any) -> None:
        if settings.getbool("LOG_ENABLED"):
            lines = LogLines(self.wire)
            lines.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
            told = settings.get("LOG_LEVEL")
            level = told if isinstance(told, int) else str(told).upper()
            logging.root.setLevel(level)
            lines.setLevel(level)  # Scrapy's own loggers let everything pass
            logging.root.addHandler(lines)

    def cancel(self) -> None:
        super().cancel()
        self.stop()

    def stop(self) -> bool:
        if self._reactor is None:
            return False
        if self._ledger is not None:
            self._reactor.callFromThread(self._ledger.give_up)
        self._reactor.callFromThread(self._process.stop)
        return True


def counted(crawler: Any) -> dict[str, Any]:
    """Scrapy's statistics as far as there are any: before the crawl begins, some versions have
    none, and others say that it is too early to ask."""
    with contextlib.suppress(RuntimeError, AttributeError):
        found: dict[str, Any] = crawler.stats.get_stats()
        return found
    return {}


def spent(stats: dict[str, Any]) -> dict[str, int]:
    """Return the cost of fetching by Scrapy's statistics; nothing where none are kept."""
    names = {
        "requests": "downloader/request_count",
        "bytes": "downloader/response_bytes",
        "retries": "retry/count",
    }
    if not is_number(stats.get(names["requests"])):
        return {}
    found = {name: stats.get(stat, 0) for name, stat in names.items()}
    return {name: int(value) if is_number(value) else 0 for name, value in found.items()}


def line_writer(settings: Any) -> Callable[[Any], tuple[list[str], str]]:
    """Return a function that serialises an item: to the names of its fields, and its JSON."""
    from itemadapter import ItemAdapter
    from scrapy.exporters import JsonLinesItemExporter

    wanted = settings.getdictorlist("FEED_EXPORT_FIELDS") or None
    feed = io.BytesIO()
    exporter = JsonLinesItemExporter(feed, encoding="utf-8", fields_to_export=wanted)

    def write(item: Any) -> tuple[list[str], str]:
        feed.seek(0)
        feed.truncate()
        exporter.export_item(item)
        names = ItemAdapter(item).keys() if wanted is None else wanted
        return [*names], feed.getvalue().decode("utf-8", "replace").strip()

    return write


def plain(value: Any) -> Any:
    """A value of Scrapy's statistics as JSON has it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
