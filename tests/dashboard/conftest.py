"""A fleet and a browser for each module of tests that look at the dashboard.

Not for the whole session: others look for processes that were left behind.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.dashboard.browsing import Ground, Window, ground
from tests.support.browser import chromium


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ground(tmp_path_factory.mktemp("dashboard")) as found:
        yield found


@pytest.fixture(scope="module")
def browser(fleet: Ground) -> Iterator[Browser]:
    """Not for the whole session: while it is there its event loop runs, and no other can."""
    with chromium() as found:
        yield found


@pytest.fixture
def window(browser: Browser, fleet: Ground) -> Iterator[Window]:
    """A new browser, in which nothing may go wrong."""
    window = Window(browser, fleet.url)
    yield window
    window.context.close()
    assert window.wrongs == []


@pytest.fixture
def page(window: Window, fleet: Ground) -> Page:
    """The dashboard, signed in as admin."""
    return window.sign_in(fleet.link)
