"""Calls about crawls: their items, figures and orders."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from crawlfleet.client.http.calls import API, Calls, segment
from crawlfleet.client.http.fields import CrawlVerb
from crawlfleet.client.http.retries import retry
from crawlfleet.features.crawls.views import (
    CrawlItem,
    CrawlItemPage,
    CrawlPage,
    CrawlView,
    HostUses,
    UrlExplanation,
)
from crawlfleet.features.crawls.work_views import CrawlWork

SILENCE_S: Final = 60.0


class CrawlCalls(Calls):
    """Calls about crawls; each is named by the id of its task."""

    def crawls(
        self,
        *,
        status: str = "",
        project_id: str | None = None,
        node_id: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CrawlView]:
        """Iterate over crawls, newest first, page by page; at most `limit`."""
        query = {"status": status, "project_id": project_id, "node_id": node_id}
        return self._pages("/crawls", CrawlPage, query, limit=limit)

    async def crawl(self, task_id: str) -> CrawlView:
        """Return one crawl, with its live figures."""
        return await self._get(f"/crawls/{segment(task_id)}", CrawlView)

    def crawl_items(
        self, task_id: str, *, kind: str | None = None, limit: int | None = None
    ) -> AsyncIterator[CrawlItem]:
        """Iterate over the items found so far, in order; at most `limit`. Long texts are cut."""
        path = f"/crawls/{segment(task_id)}/items"
        return self._pages(path, CrawlItemPage, {"kind": kind}, limit=limit)

    async def download_crawl(
        self, task_id: str, *, format: str = "jsonl", offset: int = 0
    ) -> AsyncGenerator[bytes, None]:
        """Yield all items found so far, as the bytes of a file; `MasterUnreachable` when the
        download breaks off. For a crawl that has ended, a download that broke off goes on after the
        `offset` bytes that have come.
        """
        path = f"{API}/crawls/{segment(task_id)}/output"
        query = {"format": format, **({"offset": str(offset)} if offset else {})}

        async def begun() -> tuple[AsyncGenerator[bytes, None], bytes]:
            chunks = self._transport.chunks(path, key=self._key, query=query, silence_s=SILENCE_S)
            return chunks, await anext(chunks, b"")

        chunks, first = await retry(begun, self._patience_s)
        async with aclosing(chunks):
            if first:
                yield first
            async for chunk in chunks:
                yield chunk

    async def crawl_work(self, task_id: str) -> CrawlWork:
        """Return a crawl's work by worker: shards, partitions, and the ledger's view."""
        return await self._get(f"/crawls/{segment(task_id)}/work", CrawlWork)

    async def explain_url(self, task_id: str, url: str) -> UrlExplanation:
        """Return the state of a URL in a running crawl, and why."""
        return await self._get(f"/crawls/{segment(task_id)}/urls", UrlExplanation, {"url": url})

    async def hosts(self, containing: str = "", *, limit: int = 100) -> HostUses:
        """Return the hosts, domains and addresses in use, with their crawls and waits."""
        return await self._get("/hosts", HostUses, {"containing": containing, "limit": str(limit)})

    async def steer(self, task_id: str, verb: CrawlVerb) -> CrawlView:
        """Order a crawl to `pause`, `resume` or `stop`; `stop` ends it with its present items."""
        return await self._post(f"/crawls/{segment(task_id)}:{verb}", CrawlView)
