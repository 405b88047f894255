"""One master for all tests of a module; they share its store, so each makes its own things."""

from collections.abc import Iterator

import pytest

from tests.api.plain_http import Master, started


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    with started(tmp_path_factory.mktemp("api") / "fleet") as master:
        yield master
