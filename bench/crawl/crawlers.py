"""Who crawls, with which settings: ours, and the peers in their own venv."""

import sys
from pathlib import Path
from typing import Final

import msgspec

from bench.peers import FOLDER, PLAIN_PYTHON

VENV: Final = FOLDER / "peers-crawl"
PACKAGES: Final = (
    "aiohttp==3.14.5",
    "crawlee[parsel]==1.11.0",
    "lxml==6.1.3",
    "scrapy==2.19.0",
    "selectolax==1.0.2",
    "twisted==26.10.0",
    "uvloop==0.23.0",
)
PROGRAMS: Final = Path(__file__).parent / "programs"
OURS: Final = "crawlfleet"
EXPERT: Final = "aiohttp"


class Crawler(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    settings: str
    pages: int = 20_000
    """Of the site that it crawls; fewer for slow ones, since rates are what counts."""
    program: str = ""
    """Of the peers, and its first argument."""
    python: str = sys.executable
    """Of ours: whose package it is."""

    def command(self, start: str, output: Path) -> list[str]:
        """What crawls everything that can be reached from `start`."""
        if not self.program:
            return [self.python, *OUR_COMMAND, start, *OUR_OPTIONS, "--output", str(output)]
        program, *arguments = self.program.split()
        return [
            str(VENV / "bin" / "python"),
            str(PROGRAMS / program),
            *arguments,
            start,
            str(output),
        ]


OUR_COMMAND: Final = ("-m", "crawlfleet", "crawl")
OUR_OPTIONS: Final = (
    *("--item", "div.product", "--css", "title=h2.title", "--css", "price=span.price"),
    *("--scope", "any", "--delay", "0", "--concurrency", "16", "--allow-private", "--quiet"),
)

CRAWLERS: Final = (
    Crawler(
        name=OURS,
        title="crawlfleet",
        settings="`crawlfleet crawl --delay 0 --concurrency 16 --scope any`: robots.txt obeyed,"
        " adaptive politeness, retries, cookies, canonical URLs, frontier and output durable",
    ),
    Crawler(
        name="crawlfleet-plain",
        title="crawlfleet, not compiled",
        python=str(PLAIN_PYTHON),
        settings="the same from the sources, as `make run` has it",
    ),
    Crawler(
        name=EXPERT,
        title="aiohttp + selectolax by hand",
        program="with_aiohttp.py",
        settings="uvloop, 64 requests at once; no robots.txt, politeness, retries or limits,"
        " nothing durable",
    ),
    Crawler(
        name="scrapy",
        title="Scrapy, tuned",
        pages=3_000,
        program="with_scrapy.py tuned",
        settings="asyncio reactor with uvloop, 64 requests at once and 16 a host,"
        " `CONCURRENT_ITEMS` 8; no log, retries, cookies, redirects, telnet, statistics; its own"
        " link extractor, selectors and JSON lines; no robots.txt, nothing durable",
    ),
    Crawler(
        name="scrapy-leanest",
        title="Scrapy, leanest",
        pages=6_000,
        program="with_scrapy.py leanest",
        settings="the same without any middleware or extension; links and fields by its own"
        " selectors, lines written by hand",
    ),
    Crawler(
        name="scrapy-lxml",
        title="Scrapy, leanest, lxml by hand",
        pages=1_500,
        program="with_scrapy.py lxml",
        settings="the same with links and fields read by lxml in place of Scrapy's selectors",
    ),
    Crawler(
        name="scrapy-engine",
        title="Scrapy's engine alone",
        pages=1_500,
        program="with_scrapy.py engine",
        settings="the same with a set of URLs in the spider in place of Scrapy's own filter",
    ),
    Crawler(
        name="crawlee",
        title="Crawlee + selectolax",
        pages=3_000,
        program="with_crawlee.py selectolax",
        settings="Crawlee for Python, `HttpCrawler` with its stock client (impit), 64 requests at"
        " once, storage in memory, no retries or sessions, links and a set of URLs by hand",
    ),
    Crawler(
        name="crawlee-parsel",
        title="Crawlee + parsel",
        pages=3_000,
        program="with_crawlee.py parsel",
        settings="the same with `ParselCrawler`",
    ),
)
