"""What the post does for one delivery does not grow with the receivers that have to wait."""

import asyncio
from typing import Any

import pytest

from crawlfleet.control.state.retry_gate import HeldTasks, RetryBudgets
from crawlfleet.features.webhooks import queue
from crawlfleet.features.webhooks.model import Delivery
from crawlfleet.features.webhooks.queue import DeliveryQueue
from crawlfleet.model.settings import RecoverySettings
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import stage
from tests.features.webhooks.test_service import BROKEN, OK, Receiver
from tests.features.webhooks.test_submission import URL, carrier, said


def delivery(number: int, host: str, due_at: float) -> Delivery:
    return Delivery(
        id=f"dlv-{number}",
        webhook_id="hook-1",
        subject=f"task-{number}",
        kind="task.pending",
        seq=number,
        created_at=0.0,
        due_at=due_at,
        url=f"https://{host}/",
    )


def test_receivers_come_up_when_something_is_due_and_once() -> None:
    room = DeliveryQueue()
    room.put(delivery(1, "late.example", 50.0))
    room.put(delivery(2, "soon.example", 10.0))
    room.put(delivery(3, "late.example", 20.0))
    assert room.next_due() == 10.0
    assert room.take_receiver(9.0) is None
    assert room.take_receiver(30.0) == "hook-1 https://soon.example"
    late = room.take_receiver(30.0)
    assert late == "hook-1 https://late.example"
    assert room.take_receiver(30.0) is None
    taken = room.shelf(late).take(30.0)
    assert taken is not None
    room.back(late, taken, 90.0)
    assert room.next_due() == 50.0


def test_receivers_that_wait_are_not_looked_at_for_each_delivery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    take = queue.ReceiverQueue.take

    def counted(shelf: queue.ReceiverQueue, now: float) -> Any:
        nonlocal looks
        looks += 1
        return take(shelf, now)

    async def scene() -> None:
        nonlocal looks
        receiver = Receiver(lambda parcel: BROKEN if "away" in parcel.url else OK)
        async with stage(sender=receiver) as on:
            await carrier(on)
            for number in range(150):
                await on.submit(callback_url=f"https://away{number}.example/")
            # Each is tried again after a while that grows.
            await asyncio.sleep(700)
            monkeypatch.setattr(queue.ReceiverQueue, "take", counted)
            looks = 0
            await on.submit(callback_url=URL)
            await asyncio.sleep(0.01)
            assert said(receiver) == [(":update", "pending")]
            assert looks < 30

    run_simulated(scene())


def test_projects_that_retry_nothing_are_forgotten() -> None:
    budgets = RetryBudgets(RecoverySettings(retry_window_s=60.0), HeldTasks())
    for number in range(50):
        budgets.count_first(f"p{number}", 1000.0)
    budgets.count_first("another", 1200.0)
    budgets.count_first("another", 1300.0)
    assert [*budgets._projects] == ["another"]
