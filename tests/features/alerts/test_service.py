"""Alerts: what happens in the fleet becomes one notice, told by webhooks, whoever leads."""

import asyncio
from typing import Any

import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.core.tasks.orders import Verb
from crawlfleet.errors import Conflict, NotFound
from crawlfleet.features.alerts.model import AlertRule, AlertStatus, Source
from crawlfleet.features.alerts.rules import states
from crawlfleet.features.alerts.rules.states import Observation
from crawlfleet.features.alerts.service import Alerts
from crawlfleet.features.alerts.views import AlertPatch, AlertRequest, SilenceRequest
from crawlfleet.features.alerts.watcher import RECALLED
from crawlfleet.features.webhooks.model import Format
from crawlfleet.model.event import Event
from crawlfleet.model.task import ErrorClass
from crawlfleet.model.wire.node_protocol import ReportKind
from crawlfleet.testing.simulation.clock import run_simulated
from crawlfleet.testing.simulation.shared import SharedMemory
from tests.control.stage import Stage, stage
from tests.features.webhooks.test_service import Receiver, hook


def told(receiver: Receiver) -> list[tuple[str, str]]:
    return [(body["event"]["kind"], body["event"]["details"]["rule"]) for body in receiver.bodies()]


async def status(on: Stage, name: str) -> AlertStatus:
    return (await on.control.service(Alerts).get(f"alert-{name}")).state.status


def test_lost_nodes_are_one_alert_that_is_told_and_then_over() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            await hook(on, kinds=["alert."])
            lost = [await on.node(f"n{number}") for number in range(3)]
            await asyncio.sleep(40)
            assert told(receiver) == [("alert.firing", "node-lost")]
            details = receiver.bodies()[0]["event"]["details"]
            assert sorted(details["subjects"]) == sorted(node.id for node in lost)
            assert (details["count"], details["severity"]) == (3, "critical")
            assert await status(on, "node-lost") is AlertStatus.FIRING

    run_simulated(scene())


def test_a_task_that_waits_too_long_is_told_of_and_when_it_is_over() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            await hook(on, kinds=["alert."])
            task = await on.submit()
            await asyncio.sleep(500)
            assert told(receiver) == []
            await asyncio.sleep(300)
            assert told(receiver) == [("alert.firing", "queue-age")]
            await on.order(Verb.CANCEL, task)
            await asyncio.sleep(120)
            assert told(receiver) == [
                ("alert.firing", "queue-age"),
                ("alert.resolved", "queue-age"),
            ]

    run_simulated(scene())


def test_a_share_of_failures_fires_when_there_are_enough_of_them() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            await hook(on, kinds=["alert."])
            node = await on.node(slots=30)
            for number in range(24):
                await on.submit(max_retries=0)
                await asyncio.sleep(0.05)
                assignment = await node.take()
                if number % 2:
                    await node.report(assignment, ReportKind.STARTED, ReportKind.SUCCEEDED)
                else:
                    await node.report(
                        assignment,
                        ReportKind.STARTED,
                        ReportKind.FAILED,
                        error=ErrorClass.INVALID,
                    )
            for _ in range(30):
                await asyncio.sleep(3)
                await node.beat()
            assert told(receiver) == [("alert.firing", "error-share")]
            assert receiver.bodies()[0]["event"]["details"]["value"] == 0.5

    run_simulated(scene())


def test_a_silence_is_kept_and_what_still_fires_then_is_told() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            await hook(on, kinds=["alert."])
            service = on.control.service(Alerts)
            await service.silence("alert-node-lost", SilenceRequest(for_s=600), by="ann")
            await on.node()
            await asyncio.sleep(300)
            assert await status(on, "node-lost") is AlertStatus.FIRING
            assert told(receiver) == []
            await asyncio.sleep(400)
            assert told(receiver) == [("alert.firing", "node-lost")]
            await service.unsilence("alert-node-lost", None, by="ann")

    run_simulated(scene())


def test_a_new_master_tells_nobody_twice() -> None:
    async def scene() -> None:
        receiver = Receiver()
        shared = SharedMemory(MemoryStore(), delay_s=lambda: 0.05)
        keeper = shared.seat()
        await keeper.open()
        async with stage(shared.seat(), name="one", sender=receiver) as on:
            await hook(on, kinds=["alert."])
            await on.node()
            await asyncio.sleep(60)
        for name in ("two", "three"):
            async with stage(shared.seat(), name=name, sender=receiver):
                await asyncio.sleep(60)
        assert told(receiver) == [("alert.firing", "node-lost")]
        await keeper.close()

    run_simulated(scene())


def test_what_happens_while_a_new_master_recalls_counts_once() -> None:
    class Slow(MemoryStore):
        async def events(
            self, *, after: int, limit: int, subject: str | None = None
        ) -> list[Event]:
            if limit == RECALLED:
                await asyncio.sleep(1)
            return await super().events(after=after, limit=limit, subject=subject)

    async def scene() -> None:
        receiver = Receiver()
        shared = SharedMemory(Slow())
        keeper = shared.seat()
        await keeper.open()
        async with stage(shared.seat(), name="one", sender=receiver) as on:
            await hook(on, kinds=["alert."])
            request = AlertRequest(
                name="many", source=Source.EVENTS, event="task.pending", above=2, group_s=0
            )
            await on.control.service(Alerts).create(request, by="ann")
            await asyncio.sleep(5)
        async with stage(shared.seat(), name="two", sender=receiver) as on:
            await asyncio.sleep(0.1)
            await on.submit()
            await on.submit()
            await asyncio.sleep(20)
            assert told(receiver) == []
            await on.submit()
            await asyncio.sleep(20)
            assert told(receiver) == [("alert.firing", "many")]
            assert receiver.bodies()[0]["event"]["details"]["value"] == 3
        await keeper.close()

    run_simulated(scene())


def test_a_rule_of_ones_own_counts_events_and_reaches_people_as_a_letter() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            await hook(
                on, url="mailto:ops@example.org", format=Format.EMAIL, kinds=["alert.firing"]
            )
            request = AlertRequest(
                name="many",
                source=Source.EVENTS,
                event="task.pending",
                above=2,
                project_id="shop",
                group_s=0,
            )
            rule, created = await on.control.service(Alerts).create(request, by="ann")
            assert created
            assert await on.control.service(Alerts).create(request, by="bob") == (rule, False)
            for _ in range(3):
                await on.submit()
                await on.submit(project_id="shop")
            await asyncio.sleep(20)
            (letter,) = receiver.taken
            assert letter.url == "mailto:ops@example.org"
            assert letter.title.startswith("crawlfleet [FIRING] many: 3 events task.pending")
            assert b"severity: warning" in letter.body

    run_simulated(scene())


def test_rules_are_changed_switched_off_and_removed() -> None:
    async def scene() -> None:
        async with stage(sender=Receiver()) as on:
            service = on.control.service(Alerts)
            before = [rule.id for rule in await service.all()]
            assert "alert-node-lost" in before
            changed = await service.change("alert-node-lost", AlertPatch(is_on=False), by="ann")
            assert (changed.is_on, changed.version) == (False, 1)
            await on.node()
            await asyncio.sleep(60)
            assert await status(on, "node-lost") is AlertStatus.QUIET
            with pytest.raises(Conflict):
                await service.remove("alert-node-lost", by="ann")
            fields: dict[str, Any] = {"name": "few", "source": Source.NODES_ONLINE, "below": 2}
            made, _ = await service.create(AlertRequest(**fields), by="ann")
            with pytest.raises(Conflict):
                await service.create(AlertRequest(**{**fields, "below": 3}), by="ann")
            with pytest.raises(Conflict):
                await service.create(AlertRequest(**{**fields, "name": "node-lost"}), by="ann")
            swapped = await service.change(made.id, AlertPatch(above=5.0), by="ann")
            assert (swapped.above, swapped.below) == (5.0, None)
            await service.remove(made.id, by="ann")
            with pytest.raises(NotFound):
                await service.get(made.id)
            assert [rule.id for rule in await service.all()] == before

    run_simulated(scene())


def test_a_rule_that_breaks_ends_neither_the_others_nor_the_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def breaks(rule: AlertRule, seen: Observation, now: float) -> Any:
        if rule.name == "disk-full":
            raise ZeroDivisionError
        return step(rule, seen, now)

    step = states.step
    monkeypatch.setattr(states, "step", breaks)

    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            await hook(on, kinds=["alert."])
            await on.node()
            await asyncio.sleep(40)
            assert told(receiver) == [("alert.firing", "node-lost")]

    run_simulated(scene())
