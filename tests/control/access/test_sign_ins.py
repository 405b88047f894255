"""Sessions of browsers and the links that open them, as time passes and keys change."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.access.keys import Principal
from crawlfleet.control.access.sign_ins import LINK_LASTS_S, MAX_OF_A_KEY
from crawlfleet.errors import Refused, Unauthenticated
from crawlfleet.model.key import Role
from crawlfleet.model.requests import KeyRequest, RotateRequest
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import Stage, stage

HOUR_S = 3600.0
ANN = KeyRequest(name="ann", role=Role.OPERATOR, project_id="shop")


def simulated(scene: Coroutine[Any, Any, None]) -> None:
    run_simulated(scene)


async def known(on: Stage, request: KeyRequest = ANN) -> tuple[str, Principal]:
    """A key's id, and whoever holds it."""
    key, secret = await on.control.keys.create(request, by="admin")
    return key.id, on.control.keys.authenticate(secret)


def why_over(on: Stage, secret: str, *, link: bool = False) -> str:
    """Why a session or link is not good; empty when it is."""
    sign_ins = on.control.sign_ins
    try:
        (sign_ins.authenticate_link if link else sign_ins.authenticate)(secret)
    except Unauthenticated as error:
        return error.reason
    return ""


def rows(on: Stage) -> list[str]:
    return [key.id for key in on.control.state.keyring.keys.values() if key.parent_id]


def test_a_session_is_its_key_until_it_ends() -> None:
    async def scene() -> None:
        async with stage() as on:
            key_id, ann = await known(on)
            caller, secret = await on.control.sign_ins.open(ann)
            assert on.control.sign_ins.authenticate(secret) == caller
            assert (caller.name, caller.role, caller.project_id) == ("ann", Role.OPERATOR, "shop")
            assert caller.key_id == key_id
            with pytest.raises(Unauthenticated):
                on.control.keys.authenticate(secret)
            await asyncio.sleep(24 * HOUR_S - 1)
            assert on.control.keys.is_live(caller)
            await asyncio.sleep(1.1)
            assert why_over(on, secret) == "ended_session"
            assert not on.control.keys.is_live(caller)

    simulated(scene())


def test_a_session_ends_with_its_key() -> None:
    async def scene() -> None:
        async with stage() as on:
            key_id, ann = await known(on)
            caller, secret = await on.control.sign_ins.open(ann)
            await on.control.keys.revoke(key_id, joining=False, by="admin")
            assert why_over(on, secret) == "revoked_key"
            assert not on.control.keys.is_live(caller)

            _, bob = await known(on, KeyRequest(name="bob", role=Role.VIEWER, expires_in_s=60))
            caller, secret = await on.control.sign_ins.open(bob)
            await asyncio.sleep(61)
            assert why_over(on, secret) == "expired_key"
            assert not on.control.keys.is_live(caller)

    simulated(scene())


def test_a_session_is_good_for_as_long_as_the_secret_that_opened_it() -> None:
    async def scene() -> None:
        async with stage() as on:
            key_id, ann = await known(on)
            _, secret = await on.control.sign_ins.open(ann)
            await on.control.keys.rotate(key_id, RotateRequest(grace_s=HOUR_S), by="admin")
            await asyncio.sleep(HOUR_S - 1)
            assert why_over(on, secret) == ""
            _, late = await on.control.sign_ins.open(ann)
            await asyncio.sleep(1.1)
            assert (why_over(on, secret), why_over(on, late)) == ("rotated_key", "rotated_key")
            # Nor does another grace bring it back.
            await on.control.keys.rotate(key_id, RotateRequest(grace_s=HOUR_S), by="admin")
            assert (why_over(on, secret), why_over(on, late)) == ("rotated_key", "rotated_key")

    simulated(scene())


def test_a_link_opens_one_session_within_its_time() -> None:
    async def scene() -> None:
        async with stage() as on:
            _, ann = await known(on)
            sign_ins = on.control.sign_ins
            _, link = await sign_ins.make_link(ann)
            assert why_over(on, link) == "ended_session"  # a link is no session
            opened = await asyncio.gather(
                *(sign_ins.open(sign_ins.authenticate_link(link), link=link) for _ in range(8)),
                return_exceptions=True,
            )
            sessions = [each for each in opened if isinstance(each, tuple)]
            assert len(sessions) == 1
            assert all(isinstance(each, tuple | Unauthenticated) for each in opened)
            assert sign_ins.authenticate(sessions[0][1]).name == "ann"
            assert why_over(on, link, link=True) == "ended_session"

            _, late = await sign_ins.make_link(ann)
            await asyncio.sleep(LINK_LASTS_S + 1)
            assert why_over(on, late, link=True) == "ended_session"

    simulated(scene())


def test_a_link_is_worth_nothing_without_its_key() -> None:
    async def scene() -> None:
        async with stage() as on:
            key_id, ann = await known(on)
            _, link = await on.control.sign_ins.make_link(ann)
            await on.control.keys.revoke(key_id, joining=False, by="admin")
            assert why_over(on, link, link=True) == "revoked_key"

    simulated(scene())


def test_whoever_signs_out_is_out_and_the_others_stay() -> None:
    async def scene() -> None:
        async with stage() as on:
            _, ann = await known(on)
            one, first = await on.control.sign_ins.open(ann)
            _, second = await on.control.sign_ins.open(ann)
            await on.control.sign_ins.close(one)
            await on.control.sign_ins.close(one)
            assert (why_over(on, first), why_over(on, second)) == ("ended_session", "")
            await asyncio.sleep(1)
            kinds = [event.kind for event in on.heard.events if event.kind.startswith("key.")]
            assert kinds == ["key.made", "key.signed_in", "key.signed_in", "key.signed_out"]

    simulated(scene())


def test_signing_in_and_out_again_and_again_keeps_the_store_small() -> None:
    async def scene() -> None:
        async with stage() as on:
            _, ann = await known(on)
            stale, _ = await on.control.sign_ins.open(ann)
            await on.control.sign_ins.close(stale)
            for _ in range(20):
                caller, _ = await on.control.sign_ins.open(ann)
                assert not on.control.keys.is_live(stale)  # though its row is another's now
                await on.control.sign_ins.close(caller)
                await on.control.sign_ins.make_link(ann)
                await asyncio.sleep(LINK_LASTS_S + 1)
            assert len(rows(on)) == 2

    simulated(scene())


def test_a_key_has_so_many_sessions_and_the_oldest_makes_room() -> None:
    async def scene() -> None:
        async with stage() as on:
            _, ann = await known(on)
            secrets = []
            for _ in range(MAX_OF_A_KEY + 3):
                secrets.append((await on.control.sign_ins.open(ann))[1])
                await asyncio.sleep(1)
            assert len(rows(on)) == MAX_OF_A_KEY
            live = [why_over(on, secret) == "" for secret in secrets]
            assert live == [False] * 3 + [True] * MAX_OF_A_KEY

    simulated(scene())


def test_sessions_are_no_keys_to_list_and_to_revoke() -> None:
    async def scene() -> None:
        async with stage() as on:
            key_id, ann = await known(on)
            await on.control.sign_ins.open(ann)
            await on.control.sign_ins.make_link(ann)
            assert [key.id for key in on.control.keys.find(joining=False)] == [key_id]
            assert on.control.keys.find(joining=True) == []

    simulated(scene())


def test_nodes_do_not_sign_in() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = Principal(role=Role.NODE, name="node-1", node_id="node-1")
            with pytest.raises(Refused):
                await on.control.sign_ins.open(node)
            with pytest.raises(Refused):
                await on.control.sign_ins.make_link(node)

    simulated(scene())


def test_sessions_outlast_a_restart_also_those_of_the_masters_own_key() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store=store) as on:
            await on.control.keys.ensure("a" * 64, name="admin", role=Role.ADMIN)
            admin = on.control.keys.authenticate("a" * 64)
            _, secret = await on.control.sign_ins.open(admin)
        async with stage(store=store) as on:
            await on.control.keys.ensure("a" * 64, name="admin", role=Role.ADMIN)
            assert on.control.sign_ins.authenticate(secret).name == "admin"
        async with stage(store=store) as on:
            await on.control.keys.ensure("b" * 64, name="admin", role=Role.ADMIN)
            assert why_over(on, secret) == "revoked_key"

    simulated(scene())
