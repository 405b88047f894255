"""The limit of open files is raised as far as it may be."""

import asyncio
import resource
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.compose import node
from crawlfleet.errors import ConfigError
from crawlfleet.model.settings import Settings
from crawlfleet.worker import open_files
from crawlfleet.worker.open_files import ENOUGH, allow_many, connections_of

ENDLESS = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "asked", "warned"),
    [
        (1024, 524_288, (ENOUGH, 524_288), False),
        (1024, 4096, (4096, 4096), False),
        (1024, 2048, (2048, 2048), True),
        (1024, 1024, None, True),
        (1024, ENDLESS, (ENOUGH, ENDLESS), False),
        (ENOUGH, ENOUGH, None, False),
        (ENOUGH * 2, ENOUGH * 2, None, False),
        (ENDLESS, ENDLESS, None, False),
    ],
)
def test_it_is_raised_to_what_is_of_use(
    monkeypatch: pytest.MonkeyPatch,
    soft: int,
    hard: int,
    asked: tuple[int, int] | None,
    warned: bool,
) -> None:
    found: list[Any] = []
    warnings: list[dict[str, Any]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: found.append(limits))
    monkeypatch.setattr(open_files.log, "warning", lambda _, **each: warnings.append(each))
    now = allow_many(4, 256)
    assert found == ([] if asked is None else [asked])
    assert now == (asked[0] if asked else ENOUGH if soft == ENDLESS else soft)
    assert [each["limit"] for each in warnings] == ([now] if warned else [])


@pytest.mark.parametrize(
    ("limit", "slots", "connections"),
    [
        *((ENDLESS, 4, 256), (ENOUGH, 4, 256), (4096, 4, 256), (2048, 4, 216), (1024, 4, 88)),
        *((1024, 16, 16), (1024, 64, 8), (256, 1, 8)),
    ],
)
def test_cells_share_what_may_be_open(
    monkeypatch: pytest.MonkeyPatch, limit: int, slots: int, connections: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert connections_of(slots, 256) == connections
    assert connections_of(slots, 5) == 5


def test_cells_that_wait_for_work_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    assert connections_of(4, 256, spares=64) == 24


def test_where_it_cannot_be_raised_the_worker_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not here")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, ENDLESS))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert allow_many(1, 256) == 1024


@pytest.mark.slow
def test_a_worker_raises_it_before_it_makes_cells(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Any] = []

    async def no_sandbox(*_: object, **__: object) -> None:
        seen.append("sandbox")
        raise ConfigError("none here")

    monkeypatch.setattr(node, "allow_many", lambda *told: seen.append(told))
    monkeypatch.setattr(node, "open_sandbox", no_sandbox)
    starting = node.run_worker(
        Settings(), master_url="http://127.0.0.1:1", join_token="", identity=tmp_path / "node.json"
    )
    with pytest.raises(ConfigError, match="none here"):
        asyncio.run(starting)
    assert seen == [(Settings().worker.slots, 256, 2), "sandbox"]
