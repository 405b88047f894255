"""What a crawl of one process does without until it is needed."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

DEAR = (
    "aiodns",
    "aiohttp",
    "charset_normalizer",
    "crawlfleet.compose",
    "crawlfleet.config",
    "crawlfleet.control.supervisor",
    "crawlfleet.core.attempts",
    "crawlfleet.worker.agent",
    "dateutil",
    "h2",
    "lxml",
    "multiprocessing.connection",
    "numpy",
    "price_parser",
    "pydantic",
    "python_socks",
    "re2",
    "sqlalchemy",
    "structlog",
    "uvicorn",
)
NEEDED = (
    "crawlfleet.backends.frontier.sqlite",
    "crawlfleet.cli.crawl",
    "crawlfleet.cli.crawl_display",
    "crawlfleet.cli.crawl_state",
    "crawlfleet.cli.loop",
    "crawlfleet.cli.program",
    "crawlfleet.crawl.local",
    "crawlfleet.sinks.jsonl",
    "crawlfleet.sinks.page_index",
)


def test_a_crawl_begins_without_what_few_crawls_need() -> None:
    assert _imported_by(f"import {', '.join(NEEDED)}") == []


def test_the_flags_of_a_crawl_are_read_without_what_few_crawls_need() -> None:
    refused = ["crawl", "http://shop.example", "-o", "-", "--depth", "2", "--css", "title=h1"]
    assert (
        _imported_by(
            "from contextlib import suppress\n"
            "from crawlfleet.cli.program import create_app\n"
            f"with suppress(SystemExit): create_app(['crawl'])(args={refused})"
        )
        == []
    )


def _imported_by(program: str) -> list[str]:
    looking = f"{program}\nimport sys\nprint(*{{*{DEAR!r}}} & {{*sys.modules}})"
    run = subprocess.run(
        [sys.executable, "-c", looking], check=True, capture_output=True, text=True
    )
    return run.stdout.split()
