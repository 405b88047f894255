"""Who a node is: kept across its lives, also by one whose disk takes nothing for a while."""

import asyncio
from pathlib import Path

import pytest

from crawlfleet.ports.execution import Identity
from crawlfleet.worker import identity
from crawlfleet.worker.identity import IdentityFile

FIRST = Identity(node_id="node-1", node_token="one")
SECOND = Identity(node_id="node-1", node_token="two")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "nodes" / "a.json"


def obstruct(path: Path) -> Path:
    """Nothing can be written to that path while this is in the way."""
    obstacle = path.parent
    obstacle.write_bytes(b"")
    return obstacle


async def adopted_in_vain(path: Path) -> tuple[IdentityFile, Path]:
    obstacle = obstruct(path)
    kept = IdentityFile(path)
    kept.adopt(FIRST)
    assert kept.load() == FIRST
    assert IdentityFile(path).load() is None
    return kept, obstacle


def test_the_next_life_is_the_same_node(path: Path) -> None:
    IdentityFile(path, master_pin="pin").adopt(FIRST)
    known = IdentityFile(path).load()
    assert known is not None
    assert (known.node_id, known.node_token, known.master_pin) == ("node-1", "one", "pin")


def test_a_damaged_file_is_no_identity(path: Path) -> None:
    IdentityFile(path).adopt(FIRST)
    path.write_bytes(path.read_bytes()[:-5])
    assert IdentityFile(path).load() is None


def test_what_the_disk_does_not_take_is_known_and_written_as_soon_as_it_does(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "WRITE_AGAIN_S", 0.01)

    async def scene() -> None:
        kept, obstacle = await adopted_in_vain(path)
        await asyncio.sleep(0.05)
        assert kept.load() == FIRST
        obstacle.unlink()
        async with asyncio.timeout(10):
            while IdentityFile(path).load() != FIRST:
                await asyncio.sleep(0.01)

    asyncio.run(scene())


def test_a_token_that_is_saved_meanwhile_is_not_undone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "WRITE_AGAIN_S", 0.01)

    async def scene() -> None:
        kept, obstacle = await adopted_in_vain(path)
        with pytest.raises(OSError, match="exists"):
            kept.save(SECOND)
        assert kept.load() == FIRST
        obstacle.unlink()
        kept.save(SECOND)
        await asyncio.sleep(0.05)
        assert kept.load() == IdentityFile(path).load() == SECOND

    asyncio.run(scene())
