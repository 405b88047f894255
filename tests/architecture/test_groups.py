"""Tests that share a master or look at all processes stay with one process of pytest."""

import pytest

GROUP = "groups"
pytestmark = pytest.mark.xdist_group(GROUP)


def test_who_hands_out_the_tests_knows_their_groups(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("loadgroup", False):  # set in the processes of `--dist loadgroup`
        assert request.node.nodeid.endswith(f"@{GROUP}")
