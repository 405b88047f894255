"""Keys and tokens that one master makes, changes or ends, and another is shown."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from crawlfleet.errors import Conflict, Unauthenticated
from crawlfleet.master import ControlPlane
from crawlfleet.model.key import Role
from crawlfleet.model.requests import JoinTokenRequest, KeyRequest, RotateRequest
from crawlfleet.model.wire.node_protocol import Registered, Registration
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.test_masters import Two, agree, two

SOON_S = 1.013
VIEWER = KeyRequest(name="dashboard", role=Role.VIEWER, project_id="shop")


@contextlib.asynccontextmanager
async def acquainted(delay_s: float = 0.001) -> AsyncIterator[Two]:
    """Two masters that know of each other; news takes so long from one to the other."""
    async with two() as on:
        for each in (on.one, on.other):
            await each.submit()
        await asyncio.sleep(SOON_S)
        on.shared.delay_s = lambda: delay_s
        yield on


async def joined(control: ControlPlane, secret: str, name: str = "n") -> Registered:
    by = await control.authentication.authenticate(secret)
    return await control.nodes.register(Registration(name=name), by=by)


async def is_good(control: ControlPlane, secret: str) -> bool:
    try:
        await control.authentication.authenticate(secret)
    except Unauthenticated:
        return False
    return True


def test_a_key_is_known_changed_and_ended_everywhere() -> None:
    async def scene() -> None:
        async with acquainted() as on:
            one, other = on.one.control, on.other.control
            key, secret = await one.keys.create(VIEWER, by="ann")
            assert (await other.authentication.authenticate(secret)).project_id == "shop"
            await asyncio.sleep(SOON_S)

            request = RotateRequest(grace_s=0)
            _, new = await other.keys.rotate(key.id, request, by="bob")
            await asyncio.sleep(SOON_S)
            assert [await is_good(one, each) for each in (secret, new)] == [False, True]

            caller = await other.authentication.authenticate(new)
            await one.keys.revoke(key.id, joining=False, by="ann")
            await asyncio.sleep(SOON_S)
            assert not await is_good(other, new)
            assert not other.keys.is_live(caller), "a stream that it opened ends"
            await agree(on)
            kinds = [each.kind for each in on.one.heard.events if each.subject == key.id]
            assert kinds == ["key.made", "key.rotated", "key.revoked"]

    run_simulated(scene())


def test_a_session_is_known_and_ended_everywhere() -> None:
    async def scene() -> None:
        async with acquainted() as on:
            one, other = on.one.control, on.other.control
            _, key = await one.keys.create(VIEWER, by="ann")
            _, link = await one.sign_ins.make_link(await one.authentication.authenticate(key))
            known = await other.authentication.authenticate_link(link)
            caller, secret = await other.sign_ins.open(known, link=link)
            await asyncio.sleep(SOON_S)
            assert (
                await one.authentication.authenticate_session(secret)
            ).session_hash == caller.session_hash
            with pytest.raises(Unauthenticated):
                await one.authentication.authenticate_link(link)

            await one.sign_ins.close(caller)
            await asyncio.sleep(SOON_S)
            with pytest.raises(Unauthenticated):
                await other.authentication.authenticate_session(secret)
            assert not other.keys.is_live(caller), "a stream that it opened ends"
            await agree(on)

    run_simulated(scene())


def test_a_link_opens_one_session_whichever_master_is_quicker() -> None:
    async def scene() -> None:
        async with acquainted(delay_s=0.5) as on:
            masters = (on.one.control, on.other.control)
            _, key = await masters[0].keys.create(VIEWER, by="ann")
            _, link = await masters[0].sign_ins.make_link(
                await masters[0].authentication.authenticate(key)
            )
            await asyncio.sleep(SOON_S)
            callers = [await each.authentication.authenticate_link(link) for each in masters]
            opened = await asyncio.gather(
                *(
                    each.sign_ins.open(caller, link=link)
                    for each, caller in zip(masters, callers, strict=True)
                ),
                return_exceptions=True,
            )
            assert sorted(type(each) for each in opened if isinstance(each, tuple)) == [tuple]
            assert [type(each) for each in opened if not isinstance(each, tuple)] == [
                Unauthenticated
            ]

    run_simulated(scene())


def test_a_key_that_was_just_made_elsewhere_can_be_revoked_at_once() -> None:
    async def scene() -> None:
        async with acquainted(delay_s=30.0) as on:
            key, secret = await on.one.control.keys.create(VIEWER, by="ann")
            await on.other.control.keys.revoke(key.id, joining=False, by="bob")
            assert not await is_good(on.other.control, secret)
            with pytest.raises(Conflict):
                await on.one.control.keys.rotate(key.id, RotateRequest(), by="ann")

    run_simulated(scene())


def test_the_last_use_of_a_key_stands_in_nobodys_way() -> None:
    async def scene() -> None:
        async with acquainted() as on:
            one, other = on.one.control, on.other.control
            key, secret = await one.keys.create(VIEWER, by="ann")
            await asyncio.sleep(SOON_S)
            for _ in range(5):
                await one.authentication.authenticate(secret, address="10.0.0.1")
                await other.authentication.authenticate(secret, address="10.0.0.2")
                await asyncio.gather(one.keys.save(), other.keys.save())
            await one.authentication.authenticate(secret, address="10.0.0.1")
            await one.keys.save()
            await other.keys.revoke(key.id, joining=False, by="bob")
            await asyncio.sleep(SOON_S)
            assert not await is_good(one, secret)
            await agree(on)

    run_simulated(scene())


def test_masters_together_let_in_no_more_nodes_than_a_token_allows() -> None:
    async def scene() -> None:
        async with acquainted(delay_s=30.0) as on:
            one, other = on.one.control, on.other.control
            request = JoinTokenRequest(uses=3)
            token, secret = await one.keys.create_join_token(request, by="ann")
            tries = [joined(each, secret, f"n{n}") for n in range(4) for each in (one, other)]
            outcomes = await asyncio.gather(*tries, return_exceptions=True)
            assert sum(isinstance(each, Registered) for each in outcomes) == 3
            assert sum(isinstance(each, Unauthenticated) for each in outcomes) == 5
            await asyncio.sleep(30.0 + SOON_S)
            assert [each.keys.get(token.id, joining=True).uses for each in (one, other)] == [3, 3]

    run_simulated(scene())


def test_a_node_changes_its_token_from_master_to_master() -> None:
    async def scene() -> None:
        async with acquainted() as on:
            one, other = on.one.control, on.other.control
            _, secret = await one.keys.create_join_token(JoinTokenRequest(), by="ann")
            node = await joined(one, secret)
            old = node.node_token or ""
            await one.node_tokens.rotate(node.node_id, by="ann")
            await asyncio.sleep(SOON_S)

            assert other.node_tokens.is_due(node.node_id)
            new = (await other.node_tokens.renew(node.node_id)).node_token
            assert (await one.authentication.authenticate(new)).node_id == node.node_id
            assert not await is_good(one, old)
            await one.keys.save()
            await asyncio.sleep(SOON_S)
            assert [await is_good(other, each) for each in (old, new)] == [False, True]
            assert not other.node_tokens.is_due(node.node_id)
            await agree(on)

    run_simulated(scene())


def test_a_node_that_was_revoked_at_one_master_has_nothing_to_say_at_another() -> None:
    async def scene() -> None:
        async with acquainted() as on:
            one, other = on.one.control, on.other.control
            _, secret = await one.keys.create_join_token(JoinTokenRequest(), by="ann")
            node = await joined(one, secret)
            assert await is_good(other, node.node_token or "")
            await one.node_tokens.revoke(node.node_id, by="ann")
            await asyncio.sleep(SOON_S)
            assert not await is_good(other, node.node_token or "")
            assert node.session_id not in other.state.sessions
            await agree(on)

    run_simulated(scene())
