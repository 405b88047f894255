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
    "crawlfleet.control.supervisor",
    "crawlfleet.worker.agent",
    "dateutil",
    "h2",
    "lxml",
    "numpy",
    "price_parser",
    "python_socks",
    "re2",
    "sqlalchemy",
    "structlog",
    "uvicorn",
)
NEEDED = (
    "crawlfleet.backends.frontier.sqlite",
    "crawlfleet.cli.crawl_display",
    "crawlfleet.cli.crawl_state",
    "crawlfleet.cli.program",
    "crawlfleet.crawl.local",
    "crawlfleet.sinks.jsonl",
    "crawlfleet.sinks.page_index",
)


def test_a_crawl_begins_without_what_few_crawls_need() -> None:
    program = f"import sys, {', '.join(NEEDED)}\nprint(*{{*{DEAR!r}}} & {{*sys.modules}})"
    imported = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    assert imported.split() == []
