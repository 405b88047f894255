"""How fast the site can be fetched at all: a bare httptools loop that knows every URL.

It reads nothing and keeps nothing. It shows that the server is not what the crawlers wait for,
and asks for each page once before they come, so that none of them waits for a page to be made.
"""

import asyncio
import os
import time

import msgspec
import uvloop

from bench.crawl.turn import Place, cores
from bench.fetch import Bare

AT_ONCE = 64


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    per_s: float
    per_cpu_s: float
    """Of the fetching process."""
    server_per_cpu_s: float
    """What the server's core could serve."""


def fetch_all(place: Place) -> Floor:
    """Every page once."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores()[1])
    try:
        server = place.cpu_s()
        begun, cpu = time.perf_counter(), time.process_time()
        uvloop.run(_fetch_all(place))
        pages = place.spec.pages
        return Floor(
            per_s=pages / (time.perf_counter() - begun),
            per_cpu_s=pages / (time.process_time() - cpu),
            server_per_cpu_s=pages / max(place.cpu_s() - server, 0.01),
        )
    finally:
        os.sched_setaffinity(0, own)


async def _fetch_all(place: Place) -> None:
    spec, loop = place.spec, asyncio.get_running_loop()
    lanes = [iter(range(host, spec.pages, spec.hosts)) for host in range(spec.hosts)]

    async def work(host: int) -> None:
        connection = (await loop.create_connection(Bare, f"127.0.0.{host + 1}", spec.port))[1]
        for page in lanes[host]:
            path = spec.path(page).encode()
            await connection.ask(b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path)

    await asyncio.gather(*(work(number % spec.hosts) for number in range(AT_ONCE)))
