"""Features plug into a master: what one adds is found, asked and run, and nothing else changes."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from crawlfleet import master
from crawlfleet.control.kernel import Kernel
from crawlfleet.control.openings import Adapters, Feature, Loop
from crawlfleet.control.services import Services
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.project import DEFAULT_PROJECT, Project
from crawlfleet.model.requests import TaskRequest
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import Heard, stage


class Projects:
    """An index that holds nothing, and counts what it is handed."""

    subject = "project"

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.cleared = 0

    async def read(self, ids: Sequence[str] | None = None) -> Sequence[Project]:
        return ()

    def ids_of(self, change: Change) -> Iterator[str]:
        return iter(())

    def take(self, change: Change) -> None:
        self.taken += [each.id for each in change.of(Project)]

    def clear(self) -> None:
        self.cleared += 1


class NoRush:
    """A check that refuses what is urgent, and labels the rest."""

    is_of_place = False

    async def look_up(self, requests: Sequence[TaskRequest]) -> "NoRush":
        return self

    def problems(self, request: TaskRequest) -> Iterator[FieldProblem]:
        if request.priority > 5:
            yield FieldProblem(field="priority", message="is a rush", remedy="wait")

    def fields(self, request: TaskRequest) -> Mapping[str, Any]:
        return {}


class Probe:
    """A feature with something in each opening."""

    def __init__(self) -> None:
        self.index, self.heard, self.runs, self.steps = Projects(), Heard(), 0, []

    def __call__(self, kernel: Kernel, adapters: Adapters) -> Feature:
        return Feature(
            services=(self,),
            indexes=(self.index,),
            checks=(NoRush(),),
            hearers=(self.heard,),
            loops=(Loop("probe", self.run),),
            open=self.open,
            close=self.close,
        )

    async def run(self) -> None:
        self.runs += 1
        await asyncio.Event().wait()

    async def open(self) -> None:
        self.steps.append("open")

    async def close(self) -> None:
        self.steps.append("close")

    steps: list[str]


def test_a_feature_is_asked_handed_run_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = Probe()
    monkeypatch.setattr(master, "FEATURES", (*master.FEATURES, probe))

    async def scene() -> None:
        async with stage() as on:
            assert on.control.service(Probe) is probe
            assert DEFAULT_PROJECT in probe.index.taken, "what is loaded, too"
            await on.submit(project_id="shop")
            assert probe.index.taken[-1] == "shop"
            with pytest.raises(InvalidRequest, match="is a rush"):
                await on.submit(priority=9)
            await asyncio.sleep(0.1)
            assert any(event.kind == "task.pending" for event in probe.heard.events)
            assert probe.runs == 1
            cleared = probe.index.cleared
            await on.control.state.load()
            assert probe.index.cleared == cleared + 1
            assert probe.steps == ["open"]
        assert probe.steps == ["open", "close"]

    run_simulated(scene())


def test_a_service_is_found_by_its_type_alone() -> None:
    services = Services()
    heard = Heard()
    services.add(heard)
    assert services.get(Heard) is heard
    with pytest.raises(LookupError, match="Event"):
        services.get(Event)
    with pytest.raises(AssertionError, match="two services"):
        services.add(Heard())
