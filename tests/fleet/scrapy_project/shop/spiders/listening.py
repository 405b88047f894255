from contextlib import suppress
from pathlib import Path

import scrapy

from shop.items import Product

LISTENS = "0A"


def own_ports():
    """The ports on which this process listens, by the kernel's own tables."""
    files = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the list itself is gone
            files.add(str(each.readlink()))
    found = []
    for table in ("tcp", "tcp6"):
        rows = [line.split() for line in Path("/proc/self/net", table).read_text().splitlines()]
        found += [
            int(row[1].rpartition(":")[2], 16)
            for row in rows[1:]
            if row[3] == LISTENS and f"socket:[{row[9]}]" in files
        ]
    return found


class ListeningSpider(scrapy.Spider):
    """On which ports its own process listens."""

    name = "listening"
    start_urls = ("data:,nothing",)

    def parse(self, response):
        ports = own_ports()
        yield Product(
            title=scrapy.__version__,
            price=str(len(ports)),
            url=response.url,
            seen_by=",".join(map(str, ports)),
        )
