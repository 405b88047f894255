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
    "crawlfleet.master",
    "crawlfleet.core.tasks.attempts",
    "crawlfleet.worker.agent",
    "dateutil",
    "h2",
    "lxml",
    "multiprocessing.connection",
    "numpy",
    "price_parser",
    "publicsuffixlist",
    "pydantic",
    "python_socks",
    "re2",
    "sqlalchemy",
    "uvicorn",
)
NEEDED = (
    "crawlfleet.adapters.frontier.sqlite",
    "crawlfleet.cli.crawl.command",
    "crawlfleet.cli.crawl.display",
    "crawlfleet.cli.crawl.state",
    "crawlfleet.cli.shell.loop",
    "crawlfleet.cli.shell.program",
    "crawlfleet.crawl.engine.local",
    "crawlfleet.adapters.sinks.jsonl",
    "crawlfleet.adapters.sinks.page_index",
)


def test_a_crawl_begins_without_what_few_crawls_need() -> None:
    assert _imported_by(f"import {', '.join(NEEDED)}") == []


def test_the_flags_of_a_crawl_are_read_without_what_few_crawls_need() -> None:
    refused = ["crawl", "http://shop.example", "-o", "-", "--depth", "2", "--css", "title=h1"]
    assert (
        _imported_by(
            "from contextlib import suppress\n"
            "from crawlfleet.cli.shell.program import create_app\n"
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
