"""Webhooks: who is told of what, in which order, and that nothing is lost whoever dies."""

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawlfleet.adapters.seal import KeySeal
from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.core.tasks.orders import Verb
from crawlfleet.errors import Conflict, InvalidRequest, NotFound, StoreUnavailable
from crawlfleet.features.webhooks.model import (
    Delivery,
    DeliveryStatus,
    Format,
    Webhook,
    WebhookStatus,
)
from crawlfleet.features.webhooks.rules.signing import is_signed
from crawlfleet.features.webhooks.service import Webhooks
from crawlfleet.features.webhooks.table import WEBHOOKS, waiting_deliveries
from crawlfleet.features.webhooks.views import WebhookPatch, WebhookRequest
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.settings import RetentionSettings, WebhookSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.model.wire.node_protocol import ReportKind
from crawlfleet.ports.sender import OutgoingMessage, SendResult
from crawlfleet.ports.store import Committed
from crawlfleet.testing.simulation.clock import run_simulated
from crawlfleet.testing.simulation.shared import SharedMemory
from tests.control.stage import PlayedNode, Stage, stage
from tests.control.test_masters import two

DONE = (ReportKind.STARTED, ReportKind.SUCCEEDED)
OK = SendResult(delivered=True, status=200)
BROKEN = SendResult(status=500, error="answered 500")


class Receiver:
    """A courier and the receiver in one: says what became of each parcel, and remembers it."""

    def __init__(
        self, answer: Callable[[OutgoingMessage], SendResult] = lambda _: OK, takes_s: float = 0.0
    ):
        self.answer = answer
        self.takes_s = takes_s
        self.tried: list[OutgoingMessage] = []
        self.taken: list[OutgoingMessage] = []

    async def send(self, parcel: OutgoingMessage) -> SendResult:
        await asyncio.sleep(self.takes_s)
        self.tried.append(parcel)
        sent = self.answer(parcel)
        if sent.delivered:
            self.taken.append(parcel)
        return sent

    async def close(self) -> None: ...

    def bodies(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(each.body) for each in self.taken]

    def kinds(self) -> list[str]:
        return [body["event"]["kind"] for body in self.bodies()]


async def hook(on: Stage, **fields: Any) -> Webhook:
    request = WebhookRequest(**{"name": "w", "url": "https://hooks.example/in", **fields})
    webhook, secret = await on.control.service(Webhooks).create(request, by="ann")
    assert secret == webhook.secret
    return webhook


async def do(on: Stage, node: PlayedNode, **fields: Any) -> str:
    """A task from its making to its end."""
    task = await on.submit(**fields)
    await asyncio.sleep(0.05)
    await node.report(await node.take(), *DONE, data=b'{"pages": 3}')
    await asyncio.sleep(0.05)
    return task.id


def test_a_webhook_is_told_of_each_event_that_it_wants_once_and_signed() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            node = await on.node()
            await do(on, node)
            webhook = await hook(on, kinds=["task."])
            task_id = await do(on, node)
            assert receiver.kinds() == [
                "task.pending",
                "task.assigned",
                "task.processing",
                "task.completed",
            ]
            assert {body["event"]["subject"] for body in receiver.bodies()} == {task_id}
            for parcel in receiver.taken:
                headers = dict(parcel.headers)
                assert headers["Crawlfleet-Delivery"] == headers["Idempotency-Key"] == parcel.id
                assert msgspec.json.decode(parcel.body)["id"] == parcel.id
                stamp = int(headers["Crawlfleet-Timestamp"])
                header = headers["Crawlfleet-Signature"]
                assert is_signed(header, webhook.secret, stamp, parcel.body)
                assert not is_signed(header, webhook.secret, stamp + 1, parcel.body)
                assert not is_signed(header, webhook.secret, stamp, parcel.body + b" ")
                assert not is_signed(header, "0" * 64, stamp, parcel.body)
            counts = await on.control.service(Webhooks).counts(webhook.id)
            assert counts == {DeliveryStatus.DELIVERED: 4}

    run_simulated(scene())


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"project_id": "shop"}, {"shop"}),
        ({"task_type": "other"}, {"other"}),
        ({"kinds": ["task.failed"]}, set()),
        ({"kinds": ["task.completed"]}, {"shop", "other", "default"}),
        ({"format": Format.WORKFLOW}, {"other"}),
        ({"node_id": "node-none"}, set()),
    ],
)
def test_filters_choose_what_a_webhook_is_told(fields: dict[str, Any], told: set[str]) -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            node = await on.node()
            await hook(on, **fields)
            names = {
                await do(on, node, project_id="shop"): "shop",
                await do(on, node, task_type="other", workflow_id="inst-1"): "other",
                await do(on, node): "default",
            }
            found = [
                body.get("task_id") or body["event"]["subject"]
                for body in receiver.bodies()
                if "task_id" in body or body["event"]["kind"].startswith("task.")
            ]
            assert {names[id] for id in found} == told

    run_simulated(scene())


def test_what_has_to_do_with_a_node_is_told_by_its_id() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            node = await on.node("one")
            await hook(on, node_id=node.id)
            await do(on, node)
            assert "task.assigned" in receiver.kinds()
            assert all(
                node.id in (body["event"]["subject"], body["event"]["details"].get("node_id"))
                for body in receiver.bodies()
            )

    run_simulated(scene())


def test_a_workflow_engine_hears_updates_and_then_the_end_with_its_result() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            node = await on.node()
            await hook(on, url="https://flow.example/api/v1/", format=Format.WORKFLOW)
            task_id = await do(on, node, workflow_id="inst-1")
            urls = [parcel.url for parcel in receiver.taken]
            start = "https://flow.example/api/v1/workflowInstances/inst-1"
            assert urls == [f"{start}:update"] * 3 + [f"{start}:complete"]
            *updates, end = receiver.bodies()
            states = [body["status"] for body in updates]
            assert states == ["pending", "assigned", "processing"]
            assert all("result" not in body for body in updates)
            assert (end["status"], end["success"], end["task_id"]) == ("completed", True, task_id)
            assert end["result"]["data"] == {"pages": 3}
            assert end["workflow_id"] == "inst-1"

    run_simulated(scene())


def test_a_failed_task_is_a_completed_call_back_with_its_error() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            node = await on.node()
            await hook(on, format=Format.WORKFLOW)
            await on.submit(workflow_id="i", max_retries=1)
            for _ in range(2):
                await asyncio.sleep(5)
                await node.report(
                    await node.take(), ReportKind.STARTED, ReportKind.FAILED, error=ErrorClass.ERROR
                )
            await asyncio.sleep(1)
            bodies = receiver.bodies()
            assert [body["status"] for body in bodies][-1] == "failed"
            assert bodies[-1]["success"] is False
            assert bodies[-1]["error"]["message"] == "it broke"
            assert sum(parcel.url.endswith(":complete") for parcel in receiver.taken) == 1

    run_simulated(scene())


def test_a_large_result_is_left_out_and_the_receiver_is_told_so() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            node = await on.node()
            await hook(on, format=Format.WORKFLOW, kinds=["task.completed"])
            await on.submit(workflow_id="i")
            await asyncio.sleep(0.1)
            data = msgspec.json.encode({"text": "x" * 70_000})
            await node.report(await node.take(), *DONE, data=data)
            await asyncio.sleep(0.1)
            (end,) = receiver.bodies()
            assert end["result"] is None
            assert end["result_omitted"] is True
            assert len(receiver.taken[0].body) < 1000

    run_simulated(scene())


def test_a_failure_is_tried_again_under_its_id_while_others_pass_it() -> None:
    async def scene() -> None:
        bad: set[str] = set()

        def answer(parcel: OutgoingMessage) -> SendResult:
            return BROKEN if msgspec.json.decode(parcel.body)["event"]["subject"] in bad else OK

        receiver = Receiver(answer)
        async with stage(sender=receiver) as on:
            node = await on.node()
            webhook = await hook(on, kinds=["task."])
            stuck = await on.submit()
            bad.add(stuck.id)
            await asyncio.sleep(0.05)
            await node.report(await node.take(), *DONE)
            other = await do(on, node)
            about = [body["event"]["subject"] for body in receiver.bodies()]
            assert about == [other] * 4
            await asyncio.sleep(20)
            tries = [parcel for parcel in receiver.tried if parcel not in receiver.taken]
            assert len({parcel.id for parcel in tries}) == 1
            assert len({parcel.body for parcel in tries}) == 1
            assert [dict(each.headers)["Crawlfleet-Attempt"] for each in tries] == [
                str(number + 1) for number in range(len(tries))
            ]
            bad.clear()
            await asyncio.sleep(60)
            seqs = [
                body["event"]["seq"]
                for body in receiver.bodies()
                if body["event"]["subject"] == stuck.id
            ]
            assert seqs == sorted(seqs)
            assert len(seqs) == 4
            counts = await on.control.service(Webhooks).counts(webhook.id)
            assert counts == {DeliveryStatus.DELIVERED: 8}

    run_simulated(scene())


def test_what_is_given_up_is_a_dead_letter_that_can_be_sent_again() -> None:
    async def scene() -> None:
        receiver = Receiver(lambda _: BROKEN)
        settings = WebhookSettings(max_attempts=3, first_retry_s=1)
        async with stage(sender=receiver, webhooks=settings) as on:
            node = await on.node()
            webhook = await hook(on, kinds=["task.completed"], project_id="shop")
            await do(on, node, project_id="shop")
            await asyncio.sleep(60)
            assert len(receiver.tried) == 3
            service = on.control.service(Webhooks)
            (dead,) = await service.deliveries(webhook.id, DeliveryStatus.DEAD, after=None, limit=9)
            assert (dead.attempts, dead.last_status) == (3, 500)
            assert [e.cause for e in on.heard.events if e.kind == "delivery.dead"] == [
                "attempt 3: answered 500"
            ]
            receiver.answer = lambda _: OK
            reply = await service.resend(webhook.id, (), by="ann")
            assert (reply.resent, reply.more) == (1, False)
            await asyncio.sleep(0.1)
            assert [parcel.id for parcel in receiver.taken] == [dead.id]
            # One that has arrived can go again, too, when somebody asks for it by name.
            reply = await service.resend(webhook.id, [dead.id, "dlv-none"], by="ann")
            assert (reply.resent, reply.unknown) == (1, ["dlv-none"])
            await asyncio.sleep(0.1)
            assert [parcel.id for parcel in receiver.taken] == [dead.id] * 2
            told = [e for e in on.heard.events if e.kind.startswith("delivery.")]
            assert [(e.kind, e.project_id) for e in told] == [
                ("delivery.dead", "shop"),
                ("delivery.resent", "shop"),
                ("delivery.resent", "shop"),
            ]

    run_simulated(scene())


def test_a_courier_that_breaks_is_a_failed_attempt_and_the_master_leads_on() -> None:
    async def scene() -> None:
        def breaks(_: OutgoingMessage) -> SendResult:
            raise OverflowError("what a date")

        receiver = Receiver(breaks)
        async with stage(sender=receiver) as on:
            node = await on.node()
            webhook = await hook(on, kinds=["task.completed"])
            await do(on, node)
            service = on.control.service(Webhooks)
            (waits,) = await service.deliveries(webhook.id, None, after=None, limit=9)
            assert (waits.status, waits.attempts) == (DeliveryStatus.WAITING, 1)
            assert waits.last_error == "it cannot be sent: OverflowError: what a date"
            receiver.answer = lambda _: OK
            await asyncio.sleep(10)
            assert await service.counts(webhook.id) == {DeliveryStatus.DELIVERED: 1}

    run_simulated(scene())


def test_a_workflow_engine_hears_nothing_of_the_fleets_own_runs() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            node = await on.node()
            await hook(on, format=Format.WORKFLOW)
            await hook(on, name="all", kinds=["task.completed"])
            document = {"name": "w", "steps": {"one": {"task_type": "work"}}}
            workflows = on.control.service(Workflows)
            workflow, _ = await workflows.save(msgspec.json.encode(document), by="ann")
            await workflows.start(workflow.id, {}, by="ann")
            await asyncio.sleep(0.1)
            await node.report(await node.take(), *DONE)
            await asyncio.sleep(0.1)
            assert receiver.kinds() == ["task.completed"]

    run_simulated(scene())


def test_an_address_that_is_refused_is_given_up_at_once() -> None:
    async def scene() -> None:
        receiver = Receiver(lambda _: SendResult(error="a loopback address", is_final=True))
        async with stage(sender=receiver) as on:
            node = await on.node()
            webhook = await hook(on, kinds=["task.completed"])
            await do(on, node)
            await asyncio.sleep(60)
            assert len(receiver.tried) == 1
            assert await on.control.service(Webhooks).counts(webhook.id) == {DeliveryStatus.DEAD: 1}

    run_simulated(scene())


def test_a_receiver_that_fails_and_fails_is_left_alone_for_a_while() -> None:
    async def scene() -> None:
        receiver = Receiver(lambda _: BROKEN, takes_s=0.5)
        async with stage(sender=receiver) as on:
            await hook(on, kinds=["task.pending"])
            for _ in range(200):
                await on.submit()
            await asyncio.sleep(300)
            # 200 that were each tried again after 2, 4, 8… seconds would be 1,600 attempts.
            assert len(receiver.tried) < 60
            receiver.answer = lambda _: OK
            await asyncio.sleep(1000)
            assert len(receiver.taken) == 200

    run_simulated(scene())


def test_a_pause_holds_back_and_keeps_and_a_change_of_url_holds_for_what_waits() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            node = await on.node()
            webhook = await hook(on, kinds=["task.completed"])
            service = on.control.service(Webhooks)
            await service.move(webhook.id, WebhookStatus.PAUSED, by="ann")
            await do(on, node)
            await asyncio.sleep(60)
            assert receiver.tried == []
            patch = WebhookPatch(url="https://hooks.example/new")
            await service.change(webhook.id, patch, by="ann")
            await service.move(webhook.id, WebhookStatus.ACTIVE, by="ann")
            await asyncio.sleep(0.1)
            assert [parcel.url for parcel in receiver.taken] == ["https://hooks.example/new"]

    run_simulated(scene())


def test_too_much_that_waits_fills_a_webhook_until_it_is_resumed() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver, webhooks=WebhookSettings(most_waiting=3)) as on:
            webhook = await hook(on, kinds=["task.pending"], paused=True)
            service = on.control.service(Webhooks)
            for _ in range(6):
                await on.submit()
                await asyncio.sleep(0.1)
            full = await service.get(webhook.id)
            assert (full.is_full, full.status) == (True, WebhookStatus.PAUSED)
            assert "most_waiting" in full.cause
            assert await service.counts(webhook.id) == {DeliveryStatus.WAITING: 3}
            resumed = await service.move(webhook.id, WebhookStatus.ACTIVE, by="ann")
            assert not resumed.is_full
            await asyncio.sleep(0.1)
            await on.submit()
            await asyncio.sleep(0.1)
            assert len(receiver.taken) == 4

    run_simulated(scene())


def test_a_removed_webhook_is_told_nothing_more_and_what_waits_is_given_up() -> None:
    async def scene() -> None:
        receiver = Receiver(lambda _: BROKEN)
        async with stage(sender=receiver) as on:
            webhook = await hook(on, kinds=["task.pending"])
            for _ in range(20):
                await on.submit()
            await asyncio.sleep(1)
            service = on.control.service(Webhooks)
            gone = await service.remove(webhook.id, by="ann")
            assert gone.secret == ""
            await on.submit()
            await asyncio.sleep(120)
            assert await service.counts(webhook.id) == {DeliveryStatus.DEAD: 20}
            with pytest.raises(NotFound):
                await service.get(webhook.id)
            await hook(on)  # its name is free

    run_simulated(scene())


def test_a_rotated_secret_signs_beside_the_old_one_for_a_while() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            webhook = await hook(on, kinds=["task.pending"])
            service = on.control.service(Webhooks)
            _, secret = await service.rotate(webhook.id, grace_s=100, by="ann")
            for wait_s, known in ((0.1, {webhook.secret, secret}), (200, {secret})):
                await asyncio.sleep(wait_s)
                await on.submit()
                await asyncio.sleep(0.1)
                parcel = receiver.taken[-1]
                headers = dict(parcel.headers)
                stamp = int(headers["Crawlfleet-Timestamp"])
                for each in (webhook.secret, secret):
                    header = headers["Crawlfleet-Signature"]
                    assert is_signed(header, each, stamp, parcel.body) == (each in known)

    run_simulated(scene())


def test_secrets_lie_in_the_store_sealed_and_sign_all_the_same(tmp_path: Path) -> None:
    async def scene() -> None:
        receiver = Receiver()
        store = MemoryStore()
        request = WebhookRequest(name="w", url="https://h.example/", kinds=["task.pending"])

        async def signed(on: Stage, *secrets: str) -> list[bool]:
            await on.submit()
            await asyncio.sleep(0.1)
            parcel = receiver.taken[-1]
            headers = dict(parcel.headers)
            stamp = int(headers["Crawlfleet-Timestamp"])
            header = headers["Crawlfleet-Signature"]
            return [is_signed(header, each, stamp, parcel.body) for each in secrets]

        async with stage(store, sender=receiver, seal=KeySeal(tmp_path / "one")) as on:
            service = on.control.service(Webhooks)
            webhook, first = await service.create(request, by="ann")
            assert await signed(on, first) == [True]
            assert (await service.test(webhook.id, by="ann")).delivered
            _, second = await service.rotate(webhook.id, grace_s=1000, by="ann")
            assert await signed(on, first, second) == [True, True]
            stored = await store.get(WEBHOOKS, webhook.id)
            assert stored is not None
            for kept in (stored.secret, stored.old_secret):
                assert kept.startswith("sealed:")
                assert first not in kept
                assert second not in kept
        arrived = len(receiver.tried)
        async with stage(store, sender=receiver, seal=KeySeal(tmp_path / "two")) as on:
            await asyncio.sleep(30)
            service = on.control.service(Webhooks)
            await on.submit()
            await asyncio.sleep(0.1)
            (waits,) = await service.deliveries(
                webhook.id, DeliveryStatus.WAITING, after=None, limit=9
            )
            assert "the webhook's secret cannot be read" in waits.last_error
            assert "webhooks rotate w" in (await service.test(webhook.id, by="ann")).error
            assert len(receiver.tried) == arrived
            _, third = await service.rotate(webhook.id, grace_s=1000, by="ann")
            assert await signed(on, second, third) == [False, True]
            await asyncio.sleep(30)
            assert DeliveryStatus.WAITING not in await service.counts(webhook.id)

    run_simulated(scene())


def test_a_secret_from_before_there_was_a_seal_goes_on_to_sign(tmp_path: Path) -> None:
    async def scene() -> None:
        receiver = Receiver()
        store = MemoryStore()
        async with stage(store, sender=receiver) as on:
            webhook = await hook(on)
        async with stage(store, sender=receiver, seal=KeySeal(tmp_path / "key")) as on:
            assert (await on.control.service(Webhooks).test(webhook.id, by="ann")).delivered
        parcel = receiver.taken[-1]
        headers = dict(parcel.headers)
        stamp = int(headers["Crawlfleet-Timestamp"])
        assert is_signed(headers["Crawlfleet-Signature"], webhook.secret, stamp, parcel.body)

    run_simulated(scene())


def test_the_same_request_gives_the_same_webhook_and_another_of_the_name_is_refused() -> None:
    async def scene() -> None:
        async with stage(sender=Receiver()) as on:
            first = await hook(on)
            service = on.control.service(Webhooks)
            request = WebhookRequest(name="w", url="https://hooks.example/in")
            assert await service.create(request, by="bob") == (first, "")
            with pytest.raises(Conflict):
                await hook(on, kinds=["node."])
            await hook(on, project_id="shop")

    run_simulated(scene())


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"url": "ftp://x/"}, "url"),
        ({"url": "https://"}, "url"),
        ({"url": "https://a:b@x.example/"}, "url"),
        ({"url": "https://x.example:port/"}, "url"),
        ({"url": "https://x.example/a b"}, "url"),
        ({"url": "https://x.example/#a"}, "url"),
        ({"url": "mailto:ops@example.org"}, "url"),
        ({"url": "https://x.example/", "format": Format.EMAIL}, "url"),
        ({"url": "mailto:ops", "format": Format.EMAIL}, "url"),
        ({"url": "mailto:a@b.c\nBcc: x@y.z", "format": Format.EMAIL}, "url"),
        ({"url": "mailto:a@b.c\n,d@e.f", "format": Format.EMAIL}, "url"),
        ({"url": "mailto:a@b.c, d@e.f", "format": Format.EMAIL}, "url"),
        ({"name": "a b"}, "name"),
        ({"kinds": ["Task"]}, "kinds.0"),
        ({"kinds": ["task.", "delivery.dead"]}, "kinds.1"),
        ({"kinds": ["node."], "format": Format.WORKFLOW}, "kinds.0"),
        ({"node_id": "a\nb"}, "node_id"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_field(fields: dict[str, Any], field: str) -> None:
    async def scene() -> None:
        async with stage() as on:
            with pytest.raises(InvalidRequest) as caught:
                await hook(on, **fields)
            assert [problem.field for problem in caught.value.problems] == [field]

    run_simulated(scene())


def test_old_deliveries_are_removed() -> None:
    async def scene() -> None:
        keep = RetentionSettings(tasks_days=0, events_days=0, deliveries_days=0.01)
        async with stage(sender=Receiver(), retention=keep) as on:
            webhook = await hook(on, kinds=["task.pending"])
            await on.submit()
            await asyncio.sleep(1)
            service = on.control.service(Webhooks)
            assert await service.counts(webhook.id) == {DeliveryStatus.DELIVERED: 1}
            await asyncio.sleep(8000)
            assert await service.counts(webhook.id) == {}

    run_simulated(scene())


def test_a_fleet_without_webhooks_reads_and_writes_nothing_for_them() -> None:
    class Counting(MemoryStore):
        looked = written = 0

        async def webhooks(self) -> list[Webhook]:
            self.looked += 1
            return await super().webhooks()

        async def commit(self, changes: Any) -> Committed:
            self.written += sum(bool(change.of(Delivery)) for change in changes)
            return await super().commit(changes)

    async def scene() -> None:
        store = Counting()
        async with stage(store, sender=Receiver()) as on:
            node = await on.node()
            for _ in range(20):
                await do(on, node)
            assert store.written == 0
            assert store.looked <= 2

    run_simulated(scene())


def check_arrived(arrived: Sequence[dict[str, Any]], events: Sequence[Event]) -> None:
    """All came, in order for each task; what came twice was the same, and never after newer."""
    wanted: dict[str, list[int]] = defaultdict(list)
    for event in events:
        if event.kind.startswith("task.") and event.to_state is not None:
            wanted[event.subject].append(event.seq)
    first: dict[str, dict[str, Any]] = {}
    came: dict[str, list[int]] = defaultdict(list)
    for body in arrived:
        assert first.setdefault(body["id"], body) == body
        came[body["task_id"]].append(body["seq"])
    assert all(seqs == sorted(seqs) for seqs in came.values())
    assert {task_id: sorted({*seqs}) for task_id, seqs in came.items()} == wanted
    assert len(arrived) > len(first), "the test is too kind"


class Forgetful(MemoryStore):
    """Now and then it does not say whether it has made a change."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance

    async def commit(self, changes: Any) -> Committed:
        risky = any(change.of(Delivery) for change in changes)
        if risky and self._chance.random() < 0.05:
            raise StoreUnavailable("the network is gone")
        committed = await super().commit(changes)
        if risky and self._chance.random() < 0.05:
            raise StoreUnavailable("nobody knows")
        return committed


@pytest.mark.parametrize("seed", range(4))
def test_all_arrive_in_order_though_receiver_store_and_masters_fail(seed: int) -> None:
    """Masters are cut off at random moments, in the middle of sending; the receiver drops, fails
    and is slow, also after it has taken a delivery in. All events arrive, in order for each task,
    and what arrives twice has the same id and the same body."""
    chance = random.Random(seed)
    arrived: list[dict[str, Any]] = []

    class Flaky(Receiver):
        async def send(self, parcel: OutgoingMessage) -> SendResult:
            await asyncio.sleep(chance.choice((0.0, 0.01, 0.5, 3.0)))
            fate = chance.random()
            if fate < 0.3:
                return chance.choice((BROKEN, SendResult(error="connection reset")))
            arrived.append(msgspec.json.decode(parcel.body))
            await asyncio.sleep(chance.choice((0.0, 0.2)))
            if fate < 0.4:
                return SendResult(error="broke off after it was read")
            return OK

    async def scene() -> None:
        shared = SharedMemory(Forgetful(chance), delay_s=lambda: 0.05)
        settings = WebhookSettings(max_attempts=1000, first_retry_s=0.5, longest_retry_s=5)
        courier = Flaky()

        async def reign(name: str, seconds: float, tasks: int) -> None:
            """One master, from its start to a death in the middle of whatever it does."""
            async with stage(shared.seat(), name=name, sender=courier, webhooks=settings) as on:
                if not await on.store.find(WEBHOOKS.where()):
                    await hook(on, format=Format.WORKFLOW)
                for _ in range(tasks):
                    with contextlib.suppress(StoreUnavailable):
                        task = await on.submit(workflow_id="i")
                        await asyncio.sleep(chance.random())
                        if chance.random() < 0.3:
                            await on.order(Verb.CANCEL, task)
                await asyncio.sleep(seconds)

        keeper = shared.seat()
        await keeper.open()
        for number in range(8):
            await reign(f"m{number}", chance.random() * 5, tasks=4)
        await reign("last", 2000.0, tasks=1)
        check_arrived(arrived, await keeper.events(after=0, limit=10_000))
        assert await keeper.find(waiting_deliveries(after=None, limit=9)) == []
        await keeper.close()

    run_simulated(scene())


def test_a_commit_that_got_no_answer_loses_no_delivery() -> None:
    class Mute(MemoryStore):
        """Makes the first delivery, and does not say so."""

        mute = True

        async def commit(self, changes: Any) -> Committed:
            committed = await super().commit(changes)
            if self.mute and any(change.of(Delivery) for change in changes):
                self.mute = False
                raise StoreUnavailable("nobody knows")
            return committed

    async def scene() -> None:
        receiver = Receiver()
        async with stage(Mute(), sender=receiver) as on:
            await hook(on, kinds=["task.pending"])
            await on.submit()
            await asyncio.sleep(5)
            assert len(receiver.taken) == 1

    run_simulated(scene())


def test_a_master_that_leads_again_knows_what_webhooks_others_made() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with two(sender=receiver) as on:
            await on.one.submit()
            await asyncio.sleep(1)
            on.depose()
            await asyncio.sleep(10)
            assert on.other.control.leads
            await hook(on.other, kinds=["task.pending"])
            await asyncio.sleep(3)
            on.depose()
            await on.other.submit()
            await asyncio.sleep(10)
            assert on.one.control.leads
            assert receiver.kinds() == ["task.pending"]

    run_simulated(scene())


def test_a_delivery_that_is_unfolded_twice_is_there_once() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            await hook(on, kinds=["task.pending"])
            await on.submit()
            await asyncio.sleep(0.1)
            events = await on.store.events(after=0, limit=100)
            for hearer in [each for one in on.control._features for each in one.hearers]:
                await hearer.publish(events)
            await asyncio.sleep(1)
            assert len(receiver.taken) == 1
            assert await on.store.commit([Change()]) is not None

    run_simulated(scene())
