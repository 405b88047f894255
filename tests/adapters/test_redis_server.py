"""The private Redis of the tests is real, durable, and gone at the end."""

from pathlib import Path

import pytest

from tests.support.servers import redis_server

pytestmark = pytest.mark.slow


def test_redis_keeps_what_it_acknowledged_until_it_is_emptied() -> None:
    with redis_server() as server:
        assert server.execute("SET", "word", "kept") == "+OK"
        server.restart("immediate")
        assert server.execute("GET", "word").endswith("kept")
        server.restart("fast")
        assert server.execute("GET", "word").endswith("kept")
        server.pause()
        server.resume()
        server.empty()
        assert server.execute("GET", "word") == "$-1"
        pid, folder = server.pid, server.folder
    assert not Path(f"/proc/{pid}").exists()
    assert not folder.exists()
