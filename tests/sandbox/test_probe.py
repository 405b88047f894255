"""The probe, and what follows from what it finds."""

import sys
import time
from pathlib import Path

import pytest

from crawlfleet.core.isolation import at_level, level_of
from crawlfleet.model.isolation import Layer, Level
from crawlfleet.sandbox import probe


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="layers are Linux's")
def test_it_tries_every_layer_and_leaves_nothing() -> None:
    before = set(Path("/sys/fs/cgroup").glob("*/crawlfleet.probe-*"))
    found = probe.detect()
    assert {*found.layers, *found.missing} == set(Layer)
    assert all(found.missing.values())
    assert {Layer.RLIMITS, Layer.WATCHDOG, Layer.NO_NEW_PRIVILEGES} <= {*found.layers}
    level = level_of(frozenset(found.layers))
    offer, lacking = at_level(level, found)
    assert not lacking
    assert offer.level is level
    # Other tests look at the machine at the same time, and what they make is gone soon, too.
    until = time.monotonic() + 60
    while not set(Path("/sys/fs/cgroup").glob("*/crawlfleet.probe-*")) <= before:
        assert time.monotonic() < until, "something is left"
        time.sleep(0.1)


def test_a_level_names_the_layers_that_are_missing() -> None:
    found = probe.Isolation(layers=(Layer.RLIMITS, Layer.WATCHDOG))
    assert level_of(frozenset(found.layers)) is Level.L0
    _, lacking = at_level(Level.L1, found)
    assert lacking == (Layer.NO_NEW_PRIVILEGES, Layer.SECCOMP, Layer.LANDLOCK)
