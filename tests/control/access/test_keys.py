"""Keys and tokens as time passes: expiry, grace, last use, and what a restart remembers."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.access.keys import SAVE_EVERY_S, Principal
from crawlfleet.control.access.node_tokens import GRACE_S
from crawlfleet.control.state.audit_trail import AuditTrail, leaving
from crawlfleet.core.tasks.orders import TaskOrder, Verb
from crawlfleet.errors import Conflict, StoreUnavailable, Unauthenticated
from crawlfleet.model.audit import AuditEntry, AuditFilter
from crawlfleet.model.key import Role
from crawlfleet.model.requests import JoinTokenRequest, KeyRequest, RotateRequest, TaskRequest
from crawlfleet.model.settings import RetentionSettings
from crawlfleet.model.wire.node_protocol import Registration
from crawlfleet.ports.kernel_tables import KEYS
from crawlfleet.ports.store import Change, Committed
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import Stage, stage

HOUR_S = 3600.0
VIEWER = KeyRequest(name="ann", role=Role.VIEWER)


def simulated(scene: Coroutine[Any, Any, None]) -> None:
    run_simulated(scene)


class CountingStore(MemoryStore):
    """Knows how often it was written to, and can be out of order."""

    commits = 0
    is_broken = False

    async def commit(self, changes: Sequence[Change]) -> Committed:
        self.commits += 1
        if self.is_broken:
            raise StoreUnavailable("the disk is gone")
        return await super().commit(changes)


def reason(on: Stage, secret: str) -> str:
    """Why a secret is not good; empty when it is."""
    try:
        on.control.keys.authenticate(secret)
    except Unauthenticated as error:
        return error.reason
    return ""


def test_who_was_let_in_is_sent_away_when_the_key_is_rotated() -> None:
    async def scene() -> None:
        async with stage() as on:
            keys = on.control.keys
            key, first = await keys.create(VIEWER, by="admin")
            early = keys.authenticate(first)
            _, second = await keys.rotate(key.id, RotateRequest(grace_s=60), by="ann")
            late = keys.authenticate(second)
            assert keys.is_live(early)
            await asyncio.sleep(61)
            assert (keys.is_live(early), keys.is_live(late)) == (False, True)

            await keys.rotate(key.id, RotateRequest(), by="ann")

            assert (keys.is_live(early), keys.is_live(late)) == (False, False)

    simulated(scene())


def test_the_secret_before_the_newest_is_no_guess() -> None:
    async def scene() -> None:
        async with stage() as on:
            keys = on.control.keys
            key, first = await keys.create(VIEWER, by="admin")
            _, second = await keys.rotate(key.id, RotateRequest(), by="ann")
            assert [reason(on, each) for each in (first, second)] == ["rotated_key", ""]

            await keys.revoke(key.id, joining=False, by="ann")

            assert [reason(on, each) for each in (first, second)] == ["revoked_key"] * 2

    simulated(scene())


def test_a_key_is_good_until_it_expires() -> None:
    async def scene() -> None:
        async with stage() as on:
            request = KeyRequest(name="ann", role=Role.OPERATOR, project_id="p", expires_in_s=60)
            key, secret = await on.control.keys.create(request, by="admin")
            caller = on.control.keys.authenticate(secret)
            assert (caller.role, caller.name, caller.project_id) == (Role.OPERATOR, "ann", "p")
            assert caller.key_id == key.id
            await asyncio.sleep(59)
            assert on.control.keys.is_live(caller)
            await asyncio.sleep(1.1)
            assert reason(on, secret) == "expired_key"
            assert not on.control.keys.is_live(caller)

    simulated(scene())


@pytest.mark.parametrize("by_s", [-30 * 24 * HOUR_S, 30 * 24 * HOUR_S])
def test_keys_made_after_the_clock_was_set_last_as_long_as_they_should(by_s: float) -> None:
    """As on a machine without a clock of its own, which learns the time after it has begun."""

    async def scene() -> None:
        async with stage() as on:
            keys, sign_ins = on.control.keys, on.control.sign_ins
            on.control.system.set_by_s += by_s  # type: ignore[attr-defined]
            _, short = await keys.create(
                KeyRequest(name="ann", role=Role.VIEWER, expires_in_s=60), by="admin"
            )
            key, first = await keys.create(KeyRequest(name="bob", role=Role.VIEWER), by="admin")
            _, token = await keys.create_join_token(JoinTokenRequest(expires_in_s=60), by="admin")
            _, second = await keys.rotate(
                key.id, RotateRequest(grace_s=60, expires_in_s=90), by="bob"
            )
            early = keys.authenticate(short)
            _, session = await sign_ins.open(early)
            await asyncio.sleep(59)
            assert [reason(on, each) for each in (short, token, first, second)] == [""] * 4
            assert keys.is_live(early)
            assert sign_ins.authenticate(session).name == "ann"
            await asyncio.sleep(1.1)
            assert [reason(on, each) for each in (short, token, first, second)] == [
                "expired_key",
                "expired_key",
                "rotated_key",
                "",
            ]
            assert not keys.is_live(early)
            with pytest.raises(Unauthenticated):
                sign_ins.authenticate(session)
            # The name is free again.
            await keys.create(VIEWER, by="admin")

    simulated(scene())


def test_the_old_secret_is_good_for_its_grace_and_no_longer() -> None:
    async def scene() -> None:
        async with stage() as on:
            key, old = await on.control.keys.create(VIEWER, by="admin")
            _, new = await on.control.keys.rotate(key.id, RotateRequest(grace_s=HOUR_S), by="ann")
            await asyncio.sleep(HOUR_S - 1)
            assert (reason(on, old), reason(on, new)) == ("", "")
            await asyncio.sleep(1.1)
            assert (reason(on, old), reason(on, new)) == ("rotated_key", "")

    simulated(scene())


def test_the_last_use_is_told_to_the_store_now_and_then() -> None:
    async def scene() -> None:
        store = CountingStore()
        async with stage(store) as on:
            _, secret = await on.control.keys.create(VIEWER, by="admin")
            await asyncio.sleep(60)
            before = store.commits
            await asyncio.sleep(HOUR_S)
            assert store.commits == before, "an idle fleet writes nothing"
            for _ in range(1000):
                on.control.keys.authenticate(secret, address="10.0.0.1")
                await asyncio.sleep(0.01)
            await asyncio.sleep(2 * SAVE_EVERY_S)
            assert 1 <= store.commits - before <= 4
            (stored,) = await store.find(KEYS.where())
            assert stored.last_used_from == "10.0.0.1"
            assert stored.last_used_at == pytest.approx(on.control.now(), abs=3 * SAVE_EVERY_S)

    simulated(scene())


def test_the_last_use_is_saved_when_the_master_stops() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            _, secret = await on.control.keys.create(VIEWER, by="admin")
            on.control.keys.authenticate(secret, address="10.0.0.1")
        await store.open()
        assert (await store.find(KEYS.where()))[0].last_used_from == "10.0.0.1"

    simulated(scene())


def test_a_use_that_was_just_noted_does_not_stand_in_the_way_of_a_revocation() -> None:
    async def scene() -> None:
        async with stage() as on:
            key, secret = await on.control.keys.create(VIEWER, by="admin")
            on.control.keys.authenticate(secret, address="10.0.0.1")
            _, revoked = await asyncio.gather(
                on.control.keys.save(), on.control.keys.revoke(key.id, joining=False, by="ann")
            )
            assert revoked.revoked_at is not None
            assert reason(on, secret) == "revoked_key"

    simulated(scene())


def test_everything_about_keys_survives_a_restart() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            keys = on.control.keys
            _, good = await keys.create(VIEWER, by="admin")
            gone, revoked = await keys.create(KeyRequest(name="b", role=Role.ADMIN), by="admin")
            await keys.revoke(gone.id, joining=False, by="ann")
            turned, old = await keys.create(KeyRequest(name="c", role=Role.ADMIN), by="admin")
            _, new = await keys.rotate(turned.id, RotateRequest(grace_s=HOUR_S), by="ann")
            _, join = await keys.create_join_token(JoinTokenRequest(uses=1), by="admin")
            by = keys.authenticate(join)
            await on.control.nodes.register(Registration(name="n"), by=by)
        async with stage(store) as on:
            found = [reason(on, each) for each in (good, revoked, old, new, join)]
            assert found == ["", "revoked_key", "", "", "used_up"]
            with pytest.raises(Conflict, match="'ann' belongs to"):
                await on.control.keys.create(VIEWER, by="admin")

    simulated(scene())


def test_the_masters_own_secret_can_be_changed_and_changed_back() -> None:
    async def scene() -> None:
        async with stage() as on:
            for secret, other in (("first", "second"), ("second", "first"), ("first", "second")):
                await on.control.keys.ensure(secret, name="admin", role=Role.ADMIN)
                assert reason(on, secret) == ""
                assert reason(on, other) in {"revoked_key", "unknown_key"}
                assert on.control.keys.authenticate(secret).is_guessable

    simulated(scene())


def test_an_old_token_is_dead_when_its_grace_is_over_even_if_the_new_one_was_never_used() -> None:
    async def scene() -> None:
        async with stage() as on:
            joined = await on.control.nodes.register(
                Registration(name="n"), by=Principal(role=Role.NODE, name="join")
            )
            old = joined.node_token or ""
            renewed = await on.control.node_tokens.renew(joined.node_id)
            assert renewed.old_valid_until == pytest.approx(on.control.now() + GRACE_S)
            await asyncio.sleep(GRACE_S / 2)
            again = await on.control.node_tokens.renew(joined.node_id)
            # Asking again and again does not keep an old token alive.
            assert again.old_valid_until == renewed.old_valid_until
            assert reason(on, old) == ""
            assert reason(on, renewed.node_token) == "unknown_key"
            await asyncio.sleep(GRACE_S / 2 + 1)
            assert reason(on, old) == "revoked_token"
            assert reason(on, again.node_token) == ""

    simulated(scene())


def test_a_confirmed_token_stays_confirmed_when_the_store_fails_for_a_while() -> None:
    async def scene() -> None:
        store = CountingStore()
        async with stage(store) as on:
            joined = await on.control.nodes.register(
                Registration(name="n"), by=Principal(role=Role.NODE, name="join")
            )
            renewed = await on.control.node_tokens.renew(joined.node_id)
            assert reason(on, renewed.node_token) == ""
            store.is_broken = True
            await asyncio.sleep(3 * SAVE_EVERY_S)
            assert reason(on, joined.node_token or "") == "revoked_token"
            store.is_broken = False
            await asyncio.sleep(5 * SAVE_EVERY_S)
            assert reason(on, joined.node_token or "") == "unknown_key"
            (node,) = await store.nodes()
            assert node.old_token_hash == ""

    simulated(scene())


def trail(action: str) -> AuditTrail:
    return AuditTrail(
        AuditEntry(
            id="", at=0.0, actor="ann", actor_id="key-1", role="admin", address="", action=action
        )
    )


def test_what_happens_by_itself_is_not_signed() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            node = await on.node()
            with leaving(trail("create_task")):
                await on.submit()
            await node.take()
            await asyncio.sleep(60)  # the node falls silent, and the task goes back
            (entry,) = await store.audit(AuditFilter(), after=None, limit=10)
            assert (entry.action, entry.count) == ("create_task", 1)

    simulated(scene())


def test_many_commits_of_one_request_are_one_entry() -> None:
    async def scene() -> None:
        store = CountingStore()
        async with stage(store) as on:
            requests = [TaskRequest(task_type="work") for _ in range(1200)]
            made = await on.control.tasks.submit_batch(requests, by="ann")
            ids = [each.task.id for each in made if each.task]
            before = store.commits
            with leaving(trail("cancel_tasks")):
                await on.control.orders.carry_out(TaskOrder(verb=Verb.CANCEL, by="ann"), ids)
            assert store.commits - before >= 3
            (entry,) = await store.audit(AuditFilter(), after=None, limit=10)
            assert entry.count == 1200
            assert entry.subjects == tuple(ids[:20])

    simulated(scene())


@pytest.mark.slow
def test_the_audit_log_is_cleared_up_when_its_time_is_over() -> None:
    async def scene() -> None:
        store = MemoryStore()
        kept = RetentionSettings(tasks_days=0, events_days=0, audit_days=1)
        async with stage(store, retention=kept) as on:
            with leaving(trail("create_task")):
                await on.submit()
            await asyncio.sleep(20 * HOUR_S)
            assert await store.audit(AuditFilter(), after=None, limit=10)
            await asyncio.sleep(6 * HOUR_S)
            assert await store.audit(AuditFilter(), after=None, limit=10) == []

    simulated(scene())
