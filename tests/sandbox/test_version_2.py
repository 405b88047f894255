"""L4 on a kernel that has control groups of version 2, if need be on one of its own."""

import os
from pathlib import Path

import pytest

from crawlfleet.model.isolation import Layer, Level
from tests.sandbox.attempts import ATTEMPTS
from tests.sandbox.small_linux import boot, find_kernel

pytestmark = pytest.mark.slow
NEED_A_NETWORK = {"datagram", "loopback_by_proxy"}
"""They send to an address of the machine beside loopback, and ask name servers; that kernel has
neither, and so they cannot be judged on it."""


@pytest.mark.skipif(not os.environ.get("CRAWLFLEET_SOAK"), reason="takes minutes: `make soak`")
@pytest.mark.timeout(900)
def test_the_kernel_obeys_what_l4_writes(tmp_path: Path) -> None:
    kernel = find_kernel()
    assert kernel is not None, "apt-get install user-mode-linux"
    found, said = boot(kernel, tmp_path, timeout_s=800)
    assert [seen.group for seen in found] == ["", "delegated"], said[-3000:]
    for seen in found:
        assert seen.isolation.level is Level.L4
        assert Layer.CGROUP_V2 in seen.isolation.layers
        assert seen.memory.reason == "used more than its 64 MB of memory"
        assert 50 <= seen.memory.counted_mb <= 65
        for share in seen.shares:
            assert share.measured <= share.given * 1.1 + 0.03
            assert share.measured >= share.given * 0.8
        assert seen.tree_gone_s < 2
        assert seen.left == {}
    assert {*found[-1].attempts} == {*ATTEMPTS}
    assert {name for name, held in found[-1].attempts.items() if not held} <= NEED_A_NETWORK
