"""What holds for all tests."""

import logging
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from tests.handled_signals import handled
from tests.left_behind import Watch
from tests.sampling import examples
from tests.unread_errors import Net, check_logs, watch_loops

# Its failures say what differs, as those of test modules do.
pytest.register_assert_rewrite("tests.crawl_figures")
# A machine that is busy with something else must not fail a test: what has to be quick says so.
settings.register_profile("crawlfleet", deadline=None, max_examples=examples(100))
settings.load_profile("crawlfleet")

# Many processes are started by tests: each would compile all that it loads where this is set.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

WHOLLY_SLOW: Final = re.compile(r"^pytestmark = (\[\s*)?pytest\.mark\.slow\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What has slow tests only is not even imported where those are left out."""
    is_left_out = config.option.markexpr == "not slow" and collection_path.suffix == ".py"
    return True if is_left_out and WHOLLY_SLOW.search(collection_path.read_text()) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that at the end nobody waits for the last of them."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/fleet/"))


NET: Final = Net()
logging.getLogger("asyncio").addHandler(NET)
watch_loops()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A command that was run in this process may have left its own behind."""
    os.umask(0o022)
    NET.begin()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A task whose error nobody has read fails the test that ran it."""
    yield
    NET.check()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """So does one that a fixture ran."""
    yield
    NET.check()


@pytest.fixture(scope="module", autouse=True)
def logs_of_processes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """The logs of fleets that a module has started tell of no error that nobody has read; where a
    module means to have some, its `MEANT_ERRORS` matches their lines."""
    base = tmp_path_factory.getbasetemp()
    before = {*base.iterdir()}
    yield
    for folder in sorted({*base.iterdir()} - before):
        if not folder.is_symlink():
            check_logs(folder, meant=getattr(request.module, "MEANT_ERRORS", None))


def pytest_configure(config: pytest.Config) -> None:
    """A plugin of its own: a conftest hears nothing of the fixtures of a whole session."""
    config.pluginmanager.register(Watch(), "left behind")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT interrupts this process and those that it starts, as it does in a terminal. A script
    that runs the tests in the background has it ignored."""
    with handled(signal.default_int_handler, signal.SIGINT):
        yield
