"""What holds for all tests."""

import os

import pytest
from hypothesis import settings

# A machine that is busy with something else must not fail a test: what has to be quick says so.
settings.register_profile("crawlfleet", deadline=None)
settings.load_profile("crawlfleet")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A command that was run in this process may have left its own behind."""
    os.umask(0o022)
