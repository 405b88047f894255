"""Where a backup goes, who may read it, and what is left when it does not come about."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from typer.testing import Result

from crawlfleet.adapters.store.backup_file import (
    FORMAT,
    FORMAT_VERSION,
    Backup,
    Header,
    write_backup,
)
from crawlfleet.compose.by_url import open_store
from crawlfleet.ports.store_archive import Portion
from tests.handled_signals import handled

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


def test_what_no_backup_has_is_said_with_its_place(run: Run, saved: Path, place: Path) -> None:
    for verb, folder in (("backup", "fleet"), ("restore", "new")):
        flags = ["--force"] if verb == "backup" else []
        done = run(verb, str(saved), "--data", folder, *flags)
        assert done.exit_code == 0, done.stderr
        for name in ("output", "output/bundles", "output/frontiers", "secrets.key", "logs"):
            assert str(place / folder / name) in done.stderr, name
    told = run("restore", str(saved), "--data", "newer", "--json")
    parts = json.loads(told.stdout)["not_in_it"]
    assert parts[0]["where"] == str(place / "newer" / "output")
    assert all(each["what"] and each["without_it"] for each in parts)


def test_only_a_regular_file_is_replaced(run: Run, saved: Path, place: Path) -> None:
    pipe = place / "pipe"
    os.mkfifo(pipe)
    for flags in ([], ["--force"]):
        refused = run("backup", "pipe", "--data", "fleet", *flags)
        assert refused.exit_code == 1
        assert "no regular file; name another" in refused.stderr
    assert pipe.is_fifo()


def test_a_link_stays_and_what_it_leads_to_is_replaced(run: Run, saved: Path, place: Path) -> None:
    kept = place / "elsewhere" / "monday"
    kept.parent.mkdir()
    link = place / "newest"
    link.symlink_to(kept)
    assert run("backup", "newest", "--data", "fleet").exit_code == 0
    first = kept.read_bytes()
    assert run("backup", "newest", "--data", "fleet").exit_code == 1
    assert run("backup", "newest", "--data", "fleet", "--force").exit_code == 0
    assert link.readlink() == kept
    assert kept.read_bytes() != first
    assert [*kept.parent.iterdir()] == [kept]


def test_a_link_that_leads_nowhere_is_told(run: Run, saved: Path, place: Path) -> None:
    (place / "circle").symlink_to("circle")
    refused = run("backup", "circle", "--data", "fleet", "--force")
    assert refused.exit_code == 1
    assert "name another file" in refused.stderr
    assert "defect" not in refused.stderr


def header(made_by: str) -> Header:
    return Header(
        format=FORMAT, format_version=FORMAT_VERSION, schema_version="1", made_at=0, made_by=made_by
    )


def test_of_two_backups_of_one_name_each_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "fleet.backup"

    async def write(made_by: str, first: asyncio.Event, second: asyncio.Event) -> None:
        async def portions() -> AsyncIterator[Portion]:
            yield Portion("projects", ("id",), [[made_by]] * 3)
            first.set()
            await asyncio.wait_for(second.wait(), 10)

        await write_backup(file, header(made_by), portions(), lambda table, rows: None)
        saved = Backup(file)
        assert saved.header().made_by == made_by
        assert [row for portion in saved.portions() for row in portion.rows] == [[made_by]] * 3

    async def both() -> None:
        begun, ended, never = asyncio.Event(), asyncio.Event(), asyncio.Event()
        never.set()
        slow = asyncio.create_task(write("slow", begun, ended))
        await asyncio.wait_for(begun.wait(), 10)
        await write("quick", asyncio.Event(), never)
        ended.set()
        await slow

    asyncio.run(both())
    assert [*tmp_path.iterdir()] == [file]
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_backup_that_is_told_to_stop_leaves_nothing_behind(
    run: Run, saved: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    class Endless:
        async def revision(self) -> str:
            return "1"

        async def dump(self) -> AsyncIterator[Portion]:
            yield Portion("projects", ("id",), [["x"]])
            os.kill(os.getpid(), number)
            await asyncio.sleep(30)

    monkeypatch.setattr("crawlfleet.compose.by_url.open_archive", lambda url: Endless())
    before = saved.read_bytes()
    with handled(signal.SIG_DFL, number):
        stopped = run("backup", "saved", "--data", "fleet", "--force")
    assert stopped.exit_code == 128 + signal.SIGTERM
    assert stopped.stdout == ""
    assert saved.read_bytes() == before
    assert {path.name for path in saved.parent.iterdir()} == {"fleet", "saved"}


def test_a_backup_with_something_behind_its_end_is_damaged(
    run: Run, saved: Path, place: Path
) -> None:
    with saved.open("ab") as file:
        file.write(b"garbage")
    refused = run("restore", str(saved), "--data", "new")
    assert refused.exit_code == 1
    assert "is damaged" in refused.stderr
    assert "use another backup" in refused.stderr
    assert "defect" not in refused.stderr
    assert not (place / "new" / "crawlfleet.db").exists()
