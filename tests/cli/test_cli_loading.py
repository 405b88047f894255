"""Modules are read without looking for garbage."""

import gc

import pytest

from crawlfleet.cli.shell.loop import loading


def test_nobody_looks_for_garbage_meanwhile_and_never_at_what_was_loaded() -> None:
    gc.unfreeze()
    try:
        with loading():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()


def test_after_trouble_it_is_looked_for_as_before() -> None:
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()
    gc.unfreeze()
