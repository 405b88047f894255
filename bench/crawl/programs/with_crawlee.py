"""Crawlee for Python over HTTP: `with_crawlee.py selectolax|parsel URL FILE`.

Storage in memory, no retries, no session pool, no log; concurrency is fixed, so that it does not
wait for its autoscaling.
"""

import asyncio
import json
import logging
import sys
from datetime import timedelta
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import uvloop
from crawlee import ConcurrencySettings, service_locator
from crawlee.crawlers import HttpCrawler, ParselCrawler
from crawlee.storage_clients import MemoryStorageClient
from selectolax.lexbor import LexborHTMLParser

AT_ONCE = 64


async def main(kind, start, output):
    service_locator.set_storage_client(MemoryStorageClient())
    seen = {start}
    make = ParselCrawler if kind == "parsel" else HttpCrawler
    crawler = make(
        max_request_retries=0,
        use_session_pool=False,
        retry_on_blocked=False,
        configure_logging=False,
        concurrency_settings=ConcurrencySettings(
            min_concurrency=AT_ONCE, desired_concurrency=AT_ONCE, max_concurrency=AT_ONCE
        ),
        request_handler_timeout=timedelta(minutes=5),
    )
    with Path(output).open("w") as file:

        async def go_on(context, hrefs):
            base, fresh = context.request.url, []
            for href in hrefs:
                url = urldefrag(urljoin(base, href))[0]
                if url not in seen:
                    seen.add(url)
                    fresh.append(url)
            if fresh:
                await context.add_requests(fresh)

        async def by_selectolax(context):
            tree = LexborHTMLParser(await context.http_response.read())
            for product in tree.css("div.product"):
                item = {
                    "title": product.css_first("h2.title").text(),
                    "price": product.css_first("span.price").text(),
                }
                file.write(json.dumps(item) + "\n")
            await go_on(context, [node.attributes["href"] for node in tree.css("a[href]")])

        async def by_parsel(context):
            page = context.selector
            for product in page.css("div.product"):
                item = {
                    "title": product.css("h2.title a::text").get(),
                    "price": product.css("span.price::text").get(),
                }
                file.write(json.dumps(item) + "\n")
            await go_on(context, page.css("a::attr(href)").getall())

        crawler.router.default_handler(by_parsel if kind == "parsel" else by_selectolax)
        await crawler.run([start])


logging.disable(logging.CRITICAL)
asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
asyncio.run(main(*sys.argv[1:]))
