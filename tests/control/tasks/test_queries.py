"""Answers about the fleet, and what they cost."""

from typing import Any

from crawlfleet.core.tasks.lease import Lease
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import stage


class CountedLeases(dict[str, Lease]):
    """Leases that know how often somebody went through them."""

    passes = 0

    def values(self) -> Any:
        self.passes += 1
        return super().values()


def test_a_list_of_nodes_goes_through_the_leases_once() -> None:
    async def scene() -> None:
        async with stage() as on:
            nodes = [await on.node(f"n{number}", slots=3) for number in range(4)]
            submitted = [await on.submit() for _ in range(10)]
            taken = {
                node.id: sorted(each.task_id for each in await node.take_all()) for node in nodes
            }
            state = on.control.state
            leases = state.leases = CountedLeases(state.leases)
            listed = on.control.queries.nodes()
            assert leases.passes == 1
            assert {each.node.id: [*each.active_tasks] for each in listed} == taken
            assert sum(len(each.active_tasks) for each in listed) == len(submitted)
            assert [on.control.queries.node(each.node) for each in listed] == listed

    run_simulated(scene())
