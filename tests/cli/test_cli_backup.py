"""Where a backup goes, who may read it, and what is left when it does not come about."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from crawlfleet.compose.opening import open_store

Run = Callable[..., Result]


@pytest.fixture
def saved(run: Run, place: Path) -> Path:
    """A backup of an empty store, which is in the folder `fleet`."""

    async def make() -> None:
        store = open_store(f"sqlite:///{place / 'fleet' / 'crawlfleet.db'}")
        await store.open()
        await store.close()

    asyncio.run(make())
    made = run("backup", "saved", "--data", "fleet")
    assert made.exit_code == 0, made.stderr
    return place / "saved"


def test_a_restored_store_is_for_its_owners_eyes_only(run: Run, saved: Path, place: Path) -> None:
    assert run("restore", str(saved), "--data", "new").exit_code == 0
    made = [place / "new", *(place / "new").iterdir()]
    assert len(made) > 1
    assert [path for path in made if path.stat().st_mode & 0o077] == []
