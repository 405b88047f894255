"""The expert's own loop: `with_aiohttp.py URL FILE`.

aiohttp, uvloop and selectolax, a set and a queue in memory. No robots.txt, no politeness, no
retries, nothing durable, no limits: what somebody writes who needs this site once.
"""

import asyncio
import json
import sys
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import aiohttp
import uvloop
from selectolax.lexbor import LexborHTMLParser

AT_ONCE = 64


async def main(start, output):
    seen = {start}
    queue = asyncio.Queue()
    queue.put_nowait(start)
    connector = aiohttp.TCPConnector(limit=0)
    with Path(output).open("w") as file:
        async with aiohttp.ClientSession(connector=connector) as session:

            async def work():
                while True:
                    base = await queue.get()
                    async with session.get(base) as response:
                        body = await response.read()
                    tree = LexborHTMLParser(body)
                    for product in tree.css("div.product"):
                        item = {
                            "title": product.css_first("h2.title").text(),
                            "price": product.css_first("span.price").text(),
                        }
                        file.write(json.dumps(item) + "\n")
                    for node in tree.css("a[href]"):
                        url = urldefrag(urljoin(base, node.attributes["href"]))[0]
                        if url not in seen:
                            seen.add(url)
                            queue.put_nowait(url)
                    queue.task_done()

            workers = [asyncio.create_task(work()) for _ in range(AT_ONCE)]
            await queue.join()
            for worker in workers:
                worker.cancel()


uvloop.run(main(*sys.argv[1:]))
