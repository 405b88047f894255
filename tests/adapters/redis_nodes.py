"""A Redis Cluster of two private servers."""

import contextlib
import socket
import time
from collections.abc import Iterator

from tests.support.servers import RedisServer, redis_server

SLOTS = 16_384
READY_S = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def redis_cluster() -> Iterator[tuple[RedisServer, RedisServer]]:
    """Each has half of the slots, and refuses what belongs to the other."""
    ports = free_port(), free_port()
    settings = [
        {"appendfsync": "always", "cluster-enabled": "yes", "cluster-port": str(port)}
        for port in ports
    ]
    with (
        redis_server(fsync=False, settings=settings[0]) as one,
        redis_server(fsync=False, settings=settings[1]) as other,
    ):
        one.execute("CLUSTER", "ADDSLOTSRANGE", "0", str(SLOTS // 2 - 1))
        other.execute("CLUSTER", "ADDSLOTSRANGE", str(SLOTS // 2), str(SLOTS - 1))
        one.execute("CLUSTER", "MEET", "127.0.0.1", str(other.port), str(ports[1]))
        deadline = time.monotonic() + READY_S
        while not all(
            "cluster_state:ok" in each.execute("CLUSTER", "INFO") for each in (one, other)
        ):
            assert time.monotonic() < deadline, one.log.read_text()[-2000:]
            time.sleep(0.05)
        yield one, other
