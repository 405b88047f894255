"""Call-backs of single tasks and runs: who is told, in which order, and how much may wait."""

import asyncio
from typing import Any

import msgspec
import pytest

from crawlfleet.errors import Conflict, FieldProblem, InvalidRequest
from crawlfleet.features.webhooks.model import DeliveryStatus, Format, Webhook
from crawlfleet.features.webhooks.rules import callbacks
from crawlfleet.features.webhooks.rules.signing import is_signed
from crawlfleet.features.webhooks.service import Webhooks
from crawlfleet.features.webhooks.views import WebhookPatch
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.model.log import Progress
from crawlfleet.model.requests import CloneRequest
from crawlfleet.model.settings import WebhookSettings
from crawlfleet.model.task import Callback, without_query
from crawlfleet.model.wire.node_protocol import Assignment, Note, NoteBatch, ReportKind
from crawlfleet.ports.sender import OutgoingMessage, SendResult
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import PlayedNode, Stage, stage
from tests.control.test_masters import two
from tests.features.webhooks.test_service import BROKEN, DONE, OK, Receiver, hook

URL = "https://flow.example/api/v1/workflowInstances/inst-1"
EVERY_S = WebhookSettings().progress_s


async def carrier(on: Stage, **fields: Any) -> Webhook:
    return await hook(on, **{"name": "callbacks", "format": Format.CALLBACK, "url": "", **fields})


async def progress(
    on: Stage, node: PlayedNode, given: Assignment, done: float, total: float = 100.0
) -> None:
    note = Note(execution_id=given.execution_id, progress=Progress(done=done, total=total, at=done))
    batch = NoteBatch(session_id=node.session_id, notes=(note,))
    await on.control.logs.take(node.id, batch)


def said(receiver: Receiver, url: str = URL) -> list[tuple[str, str]]:
    """What a receiver took: the verb and the state."""
    return [
        (parcel.url.removeprefix(url), msgspec.json.decode(parcel.body)["status"])
        for parcel in receiver.taken
        if parcel.url.startswith(url)
    ]


def test_whoever_asked_for_a_task_hears_of_it_and_of_no_other() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            node = await on.node()
            webhook = await carrier(on)
            await on.submit()
            task = await on.submit(callback_url=URL)
            await asyncio.sleep(0.05)
            for given in await node.take_all():
                await node.report(given, *DONE, data=b'{"pages": 3}')
            await asyncio.sleep(0.05)
            *updates, end = said(receiver)
            assert {verb for verb, _ in updates} == {":update"}
            assert end == (":complete", "completed")
            assert len(receiver.taken) == len(updates) + 1
            bodies = receiver.bodies()
            assert {body["task_id"] for body in bodies} == {task.id}
            assert bodies[-1]["result"]["data"] == {"pages": 3}
            seqs = [body["seq"] for body in bodies]
            assert seqs == sorted(seqs)
            for parcel in receiver.taken:
                headers = dict(parcel.headers)
                assert headers["Idempotency-Key"] == parcel.id
                stamp = int(headers["Crawlfleet-Timestamp"])
                assert is_signed(
                    headers["Crawlfleet-Signature"], webhook.secret, stamp, parcel.body
                )

    run_simulated(scene())


def test_progress_is_told_now_and_then_and_never_after_the_end() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            node = await on.node()
            await carrier(on)
            await on.submit(callback_url=URL)
            quiet = await on.submit()
            await asyncio.sleep(0.05)
            by_task = {each.task_id: each for each in await node.take_all()}
            other = by_task.pop(quiet.id)
            (given,) = by_task.values()
            for each in (given, other):
                await node.report(each, ReportKind.STARTED)
            for done in range(60):
                await progress(on, node, given, done)
                await progress(on, node, other, done)
                await node.beat()
                await asyncio.sleep(1)
            told = [body["progress"] for body in receiver.bodies() if "progress" in body]
            assert 60 / EVERY_S <= len(told) <= 60 / EVERY_S + 1
            assert told == sorted(told, key=lambda each: each["done"])
            assert all(each["total"] == 100 for each in told)
            events = [each for each in on.heard.events if each.kind == "task.progressed"]
            assert {each.subject for each in events} == {given.task_id}
            await node.report(given, ReportKind.SUCCEEDED)
            await node.pass_time(EVERY_S)
            await progress(on, node, given, 99)
            await asyncio.sleep(1)
            assert said(receiver)[-1] == (":complete", "completed")

    run_simulated(scene())


def test_a_slow_receiver_gets_the_newest_state_and_no_queue_grows() -> None:
    async def scene() -> None:
        receiver = Receiver(lambda _: BROKEN)
        async with stage(sender=receiver) as on:
            node = await on.node()
            webhook = await carrier(on)
            await on.submit(callback_url=URL)
            await asyncio.sleep(0.05)
            given = await node.take()
            await node.report(given, ReportKind.STARTED)
            service = on.control.service(Webhooks)
            for done in range(100):
                await progress(on, node, given, done)
                await node.pass_time(EVERY_S + 1)
                waiting = (await service.counts(webhook.id)).get(DeliveryStatus.WAITING, 0)
                assert waiting <= 2
            receiver.answer = lambda _: OK
            await node.pass_time(61)
            newest = receiver.bodies()[-1]
            assert newest["progress"]["done"] == 99
            assert len(receiver.taken) <= 2
            await node.beat()
            await node.report(given, ReportKind.SUCCEEDED)
            await asyncio.sleep(1)
            assert said(receiver)[-1] == (":complete", "completed")
            counts = await service.counts(webhook.id)
            assert set(counts) == {DeliveryStatus.DELIVERED, DeliveryStatus.SUPERSEDED}

    run_simulated(scene())


def test_the_end_is_tried_until_it_arrives_or_is_a_dead_letter() -> None:
    async def scene() -> None:
        receiver = Receiver(lambda parcel: BROKEN if parcel.url.endswith(":complete") else OK)
        settings = WebhookSettings(max_attempts=4, first_retry_s=1)
        async with stage(sender=receiver, webhooks=settings) as on:
            node = await on.node()
            webhook = await carrier(on)
            await on.submit(callback_url=URL)
            await asyncio.sleep(0.05)
            await node.report(await node.take(), *DONE)
            await asyncio.sleep(300)
            tries = [each for each in receiver.tried if each.url.endswith(":complete")]
            assert len(tries) == 4
            assert len({each.id for each in tries}) == len({each.body for each in tries}) == 1
            service = on.control.service(Webhooks)
            (dead,) = await service.deliveries(webhook.id, DeliveryStatus.DEAD, after=None, limit=9)
            receiver.answer = lambda _: OK
            assert (await service.resend(webhook.id, (), by="ann")).resent == 1
            await asyncio.sleep(0.1)
            assert receiver.taken[-1].id == dead.id

    run_simulated(scene())


def test_a_receiver_that_is_away_holds_up_nobody_elses_call_backs() -> None:
    async def scene() -> None:
        gone = "https://gone.example/cb"
        receiver = Receiver(lambda parcel: BROKEN if parcel.url.startswith(gone) else OK)
        async with stage(sender=receiver) as on:
            node = await on.node(slots=40)
            await carrier(on)
            for number in range(20):
                await on.submit(callback_url=f"{gone}/{number}")
            await node.pass_time(120)
            await on.submit(callback_url=URL)
            await asyncio.sleep(0.1)
            for given in await node.take_all():
                await node.report(given, *DONE)
            await asyncio.sleep(0.1)
            assert said(receiver)[-1] == (":complete", "completed")

    run_simulated(scene())


def test_receivers_that_hang_leave_room_for_other_webhooks() -> None:
    async def scene() -> None:
        class Hanging(Receiver):
            async def send(self, parcel: OutgoingMessage) -> SendResult:
                if "hangs" in parcel.url:
                    await asyncio.sleep(3600)
                return await super().send(parcel)

        receiver = Hanging()
        async with stage(sender=receiver) as on:
            await carrier(on)
            await hook(on, kinds=["task.pending"], project_id="other")
            for number in range(100):
                await on.submit(callback_url=f"https://hangs{number}.example/cb")
            await asyncio.sleep(1)
            await on.submit(project_id="other")
            await asyncio.sleep(1)
            assert receiver.kinds() == ["task.pending"]

    run_simulated(scene())


def test_a_task_that_is_split_is_told_of_as_a_whole() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            node = await on.node(slots=4)
            await carrier(on)
            urls = [f"https://{name}.example/" for name in "abcdef"]
            parent = await on.submit(
                task_type="http_fetch",
                parameters=msgspec.Raw(msgspec.json.encode({"urls": urls, "shards": 2})),
                callback_url=URL,
            )
            await asyncio.sleep(0.05)
            first, second = await node.take_all()
            for each in (first, second):
                await node.report(each, ReportKind.STARTED)
            await progress(on, node, first, 2, 3)
            await node.pass_time(EVERY_S + 1)
            await progress(on, node, second, 1, 3)
            await asyncio.sleep(0.1)
            told = [body["progress"] for body in receiver.bodies() if "progress" in body]
            assert told[-1] == {"done": 3, "total": 6}
            for each in (first, second):
                await node.report(each, ReportKind.SUCCEEDED, data=b"{}")
            await asyncio.sleep(1)
            assert {body["task_id"] for body in receiver.bodies()} == {parent.id}
            assert [verb for verb, _ in said(receiver)].count(":complete") == 1
            assert said(receiver)[-1][0] == ":complete"

    run_simulated(scene())


def test_whoever_started_a_run_hears_of_its_steps_and_its_end() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with stage(sender=receiver) as on:
            node = await on.node()
            await carrier(on)
            steps = {"one": {"task_type": "work"}, "two": {"task_type": "work"}}
            steps["two"]["depends_on"] = ["one"]
            workflows = on.control.service(Workflows)
            workflow, _ = await workflows.save(
                msgspec.json.encode({"name": "w", "steps": steps}), by="ann"
            )
            run, _ = await workflows.start(workflow.id, {}, by="ann", callback_url=URL)
            for _ in range(2):
                await asyncio.sleep(0.2)
                await node.report(await node.take(), *DONE)
            await asyncio.sleep(0.2)
            bodies = receiver.bodies()
            assert {body["run_id"] for body in bodies} == {run.id}
            verbs = [verb for verb, _ in said(receiver)]
            assert verbs == [":update"] * (len(verbs) - 1) + [":complete"]
            # Of what happens at once the newest is told: where the run stands is in each of them.
            named = [body["step"]["name"] for body in bodies if body["step"]]
            assert named == sorted(named)
            assert {*named} <= {"one", "two"}
            assert named
            done = [body["step_states"].get("completed", 0) for body in bodies]
            assert done == sorted(done)
            assert bodies[-1]["success"] is True
            assert bodies[-1]["step_states"] == {"completed": 2}

    run_simulated(scene())


def test_progress_that_another_master_hears_is_told_by_the_one_that_leads() -> None:
    async def scene() -> None:
        receiver = Receiver()
        async with two(sender=receiver) as on:
            node = await on.one.node()
            await carrier(on.one)
            await on.one.submit(callback_url=URL)
            await asyncio.sleep(0.2)
            given = await node.take()
            node.turn_to(on.other)
            await asyncio.sleep(0.2)
            await node.report(given, ReportKind.STARTED)
            await progress(on.other, node, given, 7)
            await asyncio.sleep(0.5)
            assert receiver.bodies()[-1]["progress"] == {"done": 7, "total": 100}
            assert len({parcel.id for parcel in receiver.taken}) == len(receiver.taken)

    run_simulated(scene())


def test_a_call_back_needs_somebody_who_signs_it() -> None:
    async def scene() -> None:
        async with stage(sender=Receiver()) as on:
            with pytest.raises(InvalidRequest) as refused:
                await on.submit(callback_url=URL)
            (problem,) = refused.value.problems
            assert problem.field == "callback_url"
            assert "webhooks create" in problem.remedy
            webhook = await carrier(on, url="https://flow.example/api")
            with pytest.raises(InvalidRequest):
                await on.submit(callback_url="https://elsewhere.example/api/x")
            with pytest.raises(InvalidRequest):
                await on.submit(callback_url="mailto:ann@example.org")
            task = await on.submit(callback_url=URL)
            assert task.callback == Callback(url=URL, webhook_id=webhook.id)
            cloned = await on.control.tasks.clone(task.id, CloneRequest(), by="ann")
            assert cloned.task is not None
            assert cloned.task.callback == task.callback

    run_simulated(scene())


def test_a_carrier_takes_no_filters_and_has_no_address_to_try() -> None:
    async def scene() -> None:
        async with stage(sender=Receiver()) as on:
            with pytest.raises(InvalidRequest):
                await carrier(on, kinds=["task."])
            webhook = await carrier(on)
            with pytest.raises(Conflict):
                await on.control.service(Webhooks).test(webhook.id, by="ann")

    run_simulated(scene())


def webhook_of(id: str, url: str = "", project_id: str | None = None) -> Webhook:
    return Webhook(
        id=id,
        name=id,
        created_at=0.0,
        updated_at=0.0,
        url=url,
        project_id=project_id,
        format=Format.CALLBACK,
    )


@pytest.mark.parametrize(
    ("url", "allowed", "may"),
    [
        ("https://a.example/x", "", True),
        ("https://a.example/api/x", "https://a.example/api", True),
        ("https://a.example/api", "https://a.example/api/", True),
        ("https://a.example/apix", "https://a.example/api", False),
        ("https://a.example/api/../x", "https://a.example/api", False),
        ("https://a.example/api/%2E%2e/x", "https://a.example/api", False),
        ("https://a.example/api/..%2f..%2fadmin", "https://a.example/api", False),
        ("https://a.example/api/..\\admin", "https://a.example/api", False),
        ("https://a.example/api/..%5Cadmin", "https://a.example/api", False),
        ("https://a.example/api/..;/admin", "https://a.example/api", False),
        ("https://a.example/api/..%3B/admin", "https://a.example/api", False),
        ("https://a.example/api/%252e%252e/x", "https://a.example/api", False),
        ("https://a.example/api/x?to=%2F..%2F;", "https://a.example/api", True),
        ("http://a.example/api/x", "https://a.example/api", False),
        ("https://a.example:444/api/x", "https://a.example/api", False),
        ("https://a.example.evil.example/api/x", "https://a.example/api", False),
    ],
)
def test_where_call_backs_may_lead(url: str, allowed: str, may: bool) -> None:
    assert callbacks.leads_below(url, allowed) is may


def test_where_private_addresses_are_allowed_somebody_has_to_say_which() -> None:
    async def scene() -> None:
        async with stage(webhooks=WebhookSettings(allow_private=True)) as on:
            with pytest.raises(InvalidRequest, match="allow_private"):
                await carrier(on)
            made = await carrier(on, url="http://flow.internal/api")
            task = await on.submit(callback_url="http://flow.internal/api/1")
            assert task.callback is not None
            with pytest.raises(InvalidRequest):
                await on.submit(callback_url="http://10.0.0.1/")
            patch = WebhookPatch(url="")
            with pytest.raises(InvalidRequest, match="allow_private"):
                await on.control.service(Webhooks).change(made.id, patch, by="ann")

    run_simulated(scene())
    # One that was made before private addresses were allowed.
    open_to_all = [webhook_of("hook-1")]
    assert isinstance(callbacks.choose(open_to_all, "shop", URL), Callback)
    refused = callbacks.choose(open_to_all, "shop", URL, allow_private=True)
    assert isinstance(refused, FieldProblem)


def test_a_receiver_that_is_away_for_long_costs_nobody_else_the_end_of_a_task() -> None:
    async def scene() -> None:
        receiver = Receiver(lambda parcel: BROKEN if "away.example" in parcel.url else OK)
        settings = WebhookSettings(most_waiting=3)
        async with stage(sender=receiver, webhooks=settings) as on:
            node = await on.node(slots=20)
            webhook = await carrier(on)
            for number in range(6):
                await on.submit(callback_url=f"https://away.example/{number}")
                await asyncio.sleep(0.05)
            await on.submit(callback_url=URL)
            await asyncio.sleep(0.05)
            for given in await node.take_all():
                await node.report(given, *DONE)
            await asyncio.sleep(0.1)
            assert said(receiver)[-1] == (":complete", "completed")
            service = on.control.service(Webhooks)
            assert not (await service.get(webhook.id)).is_full
            counts = await service.counts(webhook.id)
            # Of those for whom there was no room their end is kept, and can be sent.
            assert counts[DeliveryStatus.DEAD] >= 3
            dead = [each for each in on.heard.events if each.kind == "delivery.dead"]
            assert len(dead) == counts[DeliveryStatus.DEAD]
            assert all("most_waiting" in each.cause for each in dead)
            receiver.answer = lambda _: OK
            await service.resend(webhook.id, [each.subject for each in dead], by="ann")
            await node.pass_time(200)
            ends = [each for each in receiver.taken if each.url.endswith(":complete")]
            assert len({each.url for each in ends if "away" in each.url}) == 6

    run_simulated(scene())


def test_a_query_is_not_shown() -> None:
    where = Callback(url="https://flow.example/in?token=secret", webhook_id="hook-1")
    assert where.public_url == "https://flow.example/in?…"
    assert without_query(URL) == URL


def test_the_projects_own_webhook_with_the_longest_address_carries() -> None:
    known = [
        webhook_of("hook-1"),
        webhook_of("hook-2", project_id="shop"),
        webhook_of("hook-3", "https://flow.example/api", "shop"),
        webhook_of("hook-4", project_id="other"),
    ]

    def chosen(project: str, url: str) -> str | None:
        return getattr(callbacks.choose(known, project, url), "webhook_id", None)

    assert chosen("shop", URL) == "hook-3"
    assert chosen("shop", "https://a.example/") == "hook-2"
    assert chosen("third", URL) == "hook-1"
    assert isinstance(callbacks.choose([], "shop", URL), FieldProblem)


@pytest.mark.parametrize(
    ("url", "there"),
    [
        ("https://a.example/x", "https://a.example/x:update"),
        ("https://a.example/x/", "https://a.example/x:update"),
        ("https://a.example/x?key=1", "https://a.example/x:update?key=1"),
    ],
)
def test_the_verb_goes_behind_the_path(url: str, there: str) -> None:
    assert callbacks.address(url, ":update") == there


def test_a_parcel_goes_to_the_address_of_its_task() -> None:
    async def scene() -> None:
        refused: list[OutgoingMessage] = []

        def answer(parcel: OutgoingMessage) -> SendResult:
            refused.append(parcel)
            return SendResult(error="a private address", is_final=True)

        async with stage(sender=Receiver(answer)) as on:
            webhook = await carrier(on)
            await on.submit(callback_url="http://10.0.0.1/x")
            await asyncio.sleep(60)
            # What the guard refuses is given up at once.
            assert [parcel.url for parcel in refused] == ["http://10.0.0.1/x:update"]
            counts = await on.control.service(Webhooks).counts(webhook.id)
            assert counts == {DeliveryStatus.DEAD: 1}

    run_simulated(scene())
