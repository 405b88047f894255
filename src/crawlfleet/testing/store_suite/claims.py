"""Names that only one task may hold."""

import math

from crawlfleet.ports.store import Change, RefusalKind, Store
from crawlfleet.testing.store_suite.harness import Harness, commit_one, is_refused, must, on_store
from crawlfleet.testing.store_suite.samples import AWKWARD, NOW, make_claim, make_task


class ClaimTests(Harness):
    @on_store
    async def test_living_claim_keeps_others_out_and_is_shown(self, store: Store) -> None:
        held = make_claim("task-0001", digest="abc")
        await must(store, Change(claims=(held,)))
        refusal = await commit_one(store, Change(claims=(make_claim("task-0002", at=NOW + 59),)))
        assert refusal is not None
        assert is_refused(refusal, RefusalKind.CLAIM, held.scope)
        assert refusal.claim == held

    @on_store
    async def test_claim_can_be_read_by_its_name(self, store: Store) -> None:
        held = make_claim("task-0001", digest="abc", key=AWKWARD)
        assert await store.claim(held.scope, held.key) is None
        await must(store, Change(claims=(held,)))
        assert await store.claim(held.scope, held.key) == held
        assert await store.claim("other", held.key) is None

    @on_store
    async def test_expired_claim_can_be_taken_over(self, store: Store) -> None:
        await must(store, Change(claims=(make_claim("a"),)))
        taken = make_claim("b", at=NOW + 60, expires_at=NOW + 120)
        await must(store, Change(claims=(taken,)))
        refusal = await commit_one(store, Change(claims=(make_claim("a", at=NOW + 61),)))
        assert refusal is not None
        assert refusal.claim == taken

    @on_store
    async def test_holder_may_move_its_expiry_both_ways(self, store: Store) -> None:
        await must(
            store,
            Change(claims=(make_claim("a", expires_at=math.inf),)),
            Change(claims=(make_claim("a", expires_at=NOW + 1),)),
        )
        refusal = await commit_one(store, Change(claims=(make_claim("b", at=NOW + 0.5),)))
        assert refusal is not None
        assert refusal.claim == make_claim("a", expires_at=NOW + 1)
        await must(store, Change(claims=(make_claim("b", at=NOW + 1),)))

    @on_store
    async def test_claim_without_end_never_expires(self, store: Store) -> None:
        held = make_claim("a", expires_at=math.inf)
        await must(store, Change(claims=(held,)))
        refusal = await commit_one(store, Change(claims=(make_claim("b", at=1e12),)))
        assert refusal is not None
        assert refusal.claim == held

    @on_store
    async def test_claims_differ_by_scope_and_by_key(self, store: Store) -> None:
        await must(
            store,
            Change(claims=(make_claim("a"),)),
            Change(claims=(make_claim("b", scope="other"),)),
            Change(claims=(make_claim("c", key="other"),)),
            Change(claims=(make_claim("d", key=AWKWARD, scope=AWKWARD),)),
        )
        refusal = await commit_one(
            store, Change(claims=(make_claim("e", key=AWKWARD, scope=AWKWARD),))
        )
        assert is_refused(refusal, RefusalKind.CLAIM, AWKWARD)

    @on_store
    async def test_second_claim_in_the_same_batch_is_refused(self, store: Store) -> None:
        committed = await store.commit(
            [Change(tasks=(make_task(n),), claims=(make_claim(f"task-{n:04}"),)) for n in (1, 2, 3)]
        )
        first, second, third = committed.refusals
        assert first is None
        assert second is not None
        assert third is not None
        assert second.claim == third.claim == make_claim("task-0001")
        assert await store.tasks(["task-0002", "task-0003"]) == []

    @on_store
    async def test_refused_change_gives_back_its_other_claims(self, store: Store) -> None:
        await must(store, Change(claims=(make_claim("a", key="taken"),)))
        both = (make_claim("b", key="free"), make_claim("b", key="taken"))
        assert await commit_one(store, Change(claims=both)) is not None
        await must(store, Change(claims=(make_claim("c", key="free"),)))

    @on_store
    async def test_refused_takeover_leaves_the_former_claim_in_place(self, store: Store) -> None:
        old = make_claim("a", key="k1", expires_at=NOW + 10)
        await must(store, Change(claims=(old, make_claim("a", key="k2"))))
        takeover = (
            make_claim("b", key="k1", at=NOW + 20),
            make_claim("b", key="k2", at=NOW + 20),
        )
        again = Change(claims=(make_claim("c", key="k1", at=NOW + 5),))
        committed = await store.commit([Change(claims=takeover), again])
        assert committed.refusals[1] is not None
        assert committed.refusals[1].claim == old

    @on_store
    async def test_version_is_checked_before_claims(self, store: Store) -> None:
        await must(store, Change(tasks=(make_task(),), claims=(make_claim("a"),)))
        refusal = await commit_one(store, Change(tasks=(make_task(),), claims=(make_claim("b"),)))
        assert is_refused(refusal, RefusalKind.VERSION, "task-0001")
