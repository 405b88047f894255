"""Secrets of projects: set, given to who holds what declares them, and to nobody else."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawlfleet.adapters.seal import KeySeal
from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.errors import ConfigError, Conflict, InvalidRequest, NotFound
from crawlfleet.features.secrets.service import Secrets
from crawlfleet.features.secrets.table import SECRETS
from crawlfleet.model.project import ProjectStatus
from crawlfleet.model.secret import SecretRequest
from crawlfleet.model.wire import services
from crawlfleet.ports.seal import Unsealable
from tests.control.stage import PlayedNode, Stage, stage

VALUE = "correct horse battery staple"


def played(scenario: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(scenario)
    def run(*args: Any, **fields: Any) -> None:
        asyncio.run(scenario(*args, **fields))

    return run


async def keep(
    play: Stage, name: str = "PASSWORD", value: str = VALUE, project: str = "default"
) -> Any:
    return await play.control.service(Secrets).keep(
        project, SecretRequest(name=name, value=value), by="ann"
    )


async def secrets_of(node: PlayedNode, work: Any, **fields: Any) -> tuple[dict[str, str], str]:
    """The values that the node is given for an execution, and the refusal."""
    response = await node.request(work, services.SECRETS, **fields)
    assert VALUE not in repr(response)
    return msgspec.json.decode(response.payload) or {}, response.refusal


@played
async def test_a_secret_is_given_to_the_node_that_holds_what_declares_it(tmp_path: Path) -> None:
    store = MemoryStore()
    async with stage(store, seal=KeySeal(tmp_path / "secrets.key")) as play:
        await keep(play)
        await keep(play, "OTHER", "another that is not declared")
        node = await play.node(capabilities={"secrets": True})
        await play.submit(secrets=("PASSWORD",))
        work = await node.take()
        assert work.secrets == ("PASSWORD",)
        assert await secrets_of(node, work) == ({"PASSWORD": VALUE}, "")

        assert (await secrets_of(node, work, token=work.token + 1))[0] == {}
        other = await play.node("other", capabilities={"secrets": True})
        values, refusal = await secrets_of(other, work)
        assert (values, "is not held by" in refusal) == ({}, True)

        (kept,) = [each for each in await store.find(SECRETS.where()) if each.name == "PASSWORD"]
        assert VALUE not in kept.sealed
        assert kept.sealed.startswith("1.")
        kinds = [event.kind for event in await store.events(after=0, limit=99)]
        assert kinds.count("secret.set") == 2
        assert VALUE not in repr(await store.events(after=0, limit=99))


@played
async def test_only_nodes_that_take_secrets_are_given_such_work(tmp_path: Path) -> None:
    async with stage(seal=KeySeal(tmp_path / "secrets.key")) as play:
        await keep(play)
        old = await play.node("old")
        await play.submit(secrets=("PASSWORD",))
        assert (await old.lease(wait_s=0.2)).assignments == ()
        new = await play.node("new", capabilities={"secrets": True})
        assert (await new.take()).secrets == ("PASSWORD",)


@played
async def test_a_task_declares_secrets_of_its_own_project_only(tmp_path: Path) -> None:
    async with stage(seal=KeySeal(tmp_path / "secrets.key")) as play:
        await keep(play, project="shop")
        with pytest.raises(InvalidRequest) as refused:
            await play.submit(secrets=("PASSWORD",))
        assert refused.value.problems[0].field == "secrets[0]"
        assert "crawlfleet secrets set PASSWORD" in refused.value.problems[0].remedy
        task = await play.submit(secrets=("PASSWORD", "PASSWORD"), project_id="shop")
        assert task.secrets == ("PASSWORD",)
        with pytest.raises(InvalidRequest, match="name of a secret"):
            await play.submit(secrets=("lower case",))


@played
async def test_a_secret_is_replaced_listed_and_removed(tmp_path: Path) -> None:
    async with stage(seal=KeySeal(tmp_path / "secrets.key")) as play:
        vault = play.control.service(Secrets)
        assert (await keep(play)).version == 1
        again = await keep(play, value="another value")
        assert (again.version, again.cause) == (2, "set by ann")
        await keep(play, "A_KEY", "12345678")
        names = [each.name for each in await vault.page("default", after=None, limit=9)]
        assert names == ["A_KEY", "PASSWORD"]
        node = await play.node(capabilities={"secrets": True})
        await play.submit(secrets=("PASSWORD",))
        work = await node.take()
        await vault.remove("default", "PASSWORD", by="ann")
        given = await secrets_of(node, work)
        assert given == (
            {},
            "there is no secret PASSWORD any more; set it again",
        )
        assert [each.name for each in await vault.page("default", after=None, limit=9)] == ["A_KEY"]
        with pytest.raises(NotFound):
            await vault.remove("default", "PASSWORD", by="ann")
        assert (await keep(play)).version == 4


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("lower", VALUE, "name"),
        ("1ST", VALUE, "name"),
        ("PATH", VALUE, "name"),
        ("LD_PRELOAD", VALUE, "name"),
        ("HTTPS_PROXY", VALUE, "name"),
        ("A" * 65, VALUE, "name"),
        ("FINE", "seven77", "value"),
        ("FINE", "x" * 32_001, "value"),
        ("FINE", "with a NUL \0", "value"),
    ],
)
@played
async def test_what_cannot_be_kept_is_refused_without_a_word_of_it(
    tmp_path: Path, name: str, value: str, field: str
) -> None:
    async with stage(seal=KeySeal(tmp_path / "secrets.key")) as play:
        with pytest.raises(InvalidRequest) as refused:
            await keep(play, name, value)
        assert [each.field for each in refused.value.problems] == [field]
        assert value not in repr(refused.value.problems)


@played
async def test_a_master_without_a_key_keeps_none() -> None:
    async with stage() as play:
        with pytest.raises(Conflict, match="no key for secrets"):
            await keep(play)


@played
async def test_masters_with_other_keys_say_so(tmp_path: Path) -> None:
    store = MemoryStore()
    async with stage(store, seal=KeySeal(tmp_path / "one.key")) as play:
        await keep(play)
    async with stage(store, seal=KeySeal(tmp_path / "two.key", key="ab" * 32)) as play:
        node = await play.node(capabilities={"secrets": True})
        await play.submit(secrets=("PASSWORD",))
        work = await node.take()
        values, refusal = await secrets_of(node, work)
        assert values == {}
        assert "sealed with another key; give every master the same" in refusal


def test_what_is_sealed_opens_where_it_belongs_and_nowhere_else(tmp_path: Path) -> None:
    file = tmp_path / "data" / "secrets.key"
    seal = KeySeal(file)
    sealed = seal.close(VALUE, "shop/PASSWORD")
    assert sealed != seal.close(VALUE, "shop/PASSWORD")
    assert file.stat().st_mode & 0o077 == 0
    assert KeySeal(file).open(sealed, "shop/PASSWORD") == VALUE
    spoilt = sealed[:-5] + ("AAAA" if sealed[-5:-1] != "AAAA" else "BBBB") + sealed[-1]
    for wrong, about in ((sealed, "shop/OTHER"), (spoilt, "shop/PASSWORD"), ("2.x.y", "")):
        with pytest.raises(Unsealable) as refused:
            seal.open(wrong, about)
        assert VALUE not in str(refused.value)
    with pytest.raises(Unsealable, match="there is no key at"):
        KeySeal(tmp_path / "elsewhere.key").open(sealed, "shop/PASSWORD")
    file.write_text("not a key")
    with pytest.raises(Unsealable, match="64 hexadecimal digits"):
        KeySeal(file).open(sealed, "shop/PASSWORD")
    with pytest.raises(ConfigError):
        KeySeal(file, key="too short")


@played
async def test_a_closed_project_takes_no_secret(tmp_path: Path) -> None:
    async with stage(seal=KeySeal(tmp_path / "secrets.key")) as play:
        await keep(play, project="shop")
        await play.control.projects.move("shop", ProjectStatus.CLOSED, by="ann")
        with pytest.raises(Conflict, match="closed"):
            await keep(play, project="shop")
