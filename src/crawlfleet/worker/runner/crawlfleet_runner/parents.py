"""Notes which page each request and item came from."""

from typing import Any


class Parentage:
    """The outermost spider middleware: it reports to the scheduler which requests and items each
    page led to."""

    def __init__(self, crawler: Any) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Any) -> "Parentage":
        return cls(crawler)

    def process_spider_output(self, response: Any, result: Any, spider: Any = None) -> Any:
        for each in result:
            if self._is_over():
                return
            self._note(each, response)
            yield each

    async def process_spider_output_async(
        self, response: Any, result: Any, spider: Any = None
    ) -> Any:
        async for each in result:
            if self._is_over():
                return
            self._note(each, response)
            yield each

    def _is_over(self) -> bool:
        """Return whether the crawl has failed, so that further results of callbacks do not
        count."""
        return self._crawler.crawlfleet_scheduler.trouble is not None

    def _note(self, found: Any, response: Any) -> None:
        from scrapy import Request

        if isinstance(found, Request):
            self._crawler.crawlfleet_scheduler.led_to(found, response)
