"""What holds for all tests."""

import os
import re
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from tests.sampling import examples

# Its failures say what differs, as those of test modules do.
pytest.register_assert_rewrite("tests.crawl_figures")
# A machine that is busy with something else must not fail a test: what has to be quick says so.
settings.register_profile("crawlfleet", deadline=None, max_examples=examples(100))
settings.load_profile("crawlfleet")

WHOLLY_SLOW: Final = re.compile(r"^pytestmark = (\[\s*)?pytest\.mark\.slow\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What has slow tests only is not even imported where those are left out."""
    is_left_out = config.option.markexpr == "not slow" and collection_path.suffix == ".py"
    return True if is_left_out and WHOLLY_SLOW.search(collection_path.read_text()) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that at the end nobody waits for the last of them."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/fleet/"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A command that was run in this process may have left its own behind."""
    os.umask(0o022)
