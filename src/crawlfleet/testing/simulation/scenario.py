"""What a world is like, and what became of it."""

from typing import Final

import msgspec

from crawlfleet.model.quota import Allowance
from crawlfleet.model.settings import BreakerSettings, RecoverySettings, SessionSettings
from crawlfleet.testing.simulation.faults import Rates


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """How large a world is and how rough."""

    masters: int = 1
    nodes: int = 4
    tasks: int = 60
    rough_s: float = 240.0
    """For so long things fail."""
    settle_s: float = 900.0
    """Then everything must come to its end within so long."""
    rates: Rates = Rates(
        lost_request=0.05,
        lost_reply=0.05,
        repeated=0.05,
        late=0.02,
        crash_before_commit=0.004,
        crash_after_commit=0.004,
        store_fails_before=0.003,
        store_fails_after=0.003,
        slow_answer=0.1,
        turned=0.05,
        slow_read=0.1,
        failed_read=0.01,
    )
    node_crash_every_s: float = 60.0
    cut_every_s: float = 80.0
    depose_every_s: float = 60.0
    """A leader loses the lead, and lives on; only where there are several masters."""
    late_news_s: float = 0.5
    """How late a master may hear of what another has committed."""
    freed_late_s: float = 5.0
    """How long a dead leader may keep the lead."""
    meddle_every_s: float = 8.0
    new_terms: bool = True
    """Whether people change the time-outs of the nodes, too."""
    commit_s: tuple[float, ...] = (0.0, 0.002, 0.1)
    """How long the store takes for a commit; one comes after the other."""
    submit_every_s: float = 8.0
    """At most, between two batches."""
    batches: tuple[int, ...] = (1, 2, 5, 30)
    work_s: tuple[float, ...] = (0.1, 1.0, 5.0, 30.0)
    limits_s: tuple[float | None, ...] = (None, 3.0, 10.0)
    dedup: bool = True
    """Whether some tasks share a `dedup_key`, so that most of those are not accepted."""
    shards: tuple[int, ...] = (1, 1, 1, 1, 1, 1, 1, 2, 4)
    """Into how many shards tasks are split."""
    allowances: tuple[Allowance, ...] = ()
    """What each of as many projects may have; without any, all tasks are of the default one."""
    schedules: int = 0
    """How many schedules submit tasks, too, by intervals of seconds."""
    workflows: int = 0
    """How many workflows are submitted, too, some of which are cancelled and run again."""
    expecting: float = 0.0
    """Which share of the tasks expects something of its items."""
    audit_every_s: float = 5.0
    """At most, between two looks at the masters' bookkeeping, which is long in a large fleet."""
    session: SessionSettings = SessionSettings()
    recovery: RecoverySettings = RecoverySettings()
    breakers: BreakerSettings = BreakerSettings()
    targets: tuple[str | None, ...] = ()
    """Sites that tasks depend on, some of which seem to be down for a while."""


class ScenarioOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a world came to."""

    seed: int
    by_status: dict[str, int]
    commits: int
    master_lives: int
    simulated_s: float
    fingerprint: str
    """The same for the same seed: a hash over all changes in their order."""


HOUR_S: Final = 3600.0
A_BAD_DAY: Final = Scenario(
    nodes=1_000,
    tasks=1_000_000,
    rough_s=24 * HOUR_S,
    settle_s=4 * HOUR_S,
    # For each message and each commit: a lost one every few seconds, a dead master now and then.
    rates=Rates(
        lost_request=0.002,
        lost_reply=0.002,
        repeated=0.002,
        late=0.001,
        crash_before_commit=3e-6,
        crash_after_commit=3e-6,
        store_fails_before=1e-5,
        store_fails_after=1e-5,
        slow_answer=0.001,
        slow_read=0.001,
        failed_read=1e-4,
    ),
    node_crash_every_s=4 * HOUR_S,
    cut_every_s=4 * HOUR_S,
    meddle_every_s=60.0,
    new_terms=False,
    # A thousand nodes commit some sixty times a second: a store that could not keep up with that
    # would only show that it cannot.
    commit_s=(0.0, 0.002, 0.01),
    submit_every_s=20.0,
    batches=(1, 10, 100, 350),
    work_s=(1.0, 10.0, 60.0, 600.0),
    limits_s=(None, 30.0, 900.0),
    dedup=False,
    shards=(1,),
    audit_every_s=120.0,
    session=SessionSettings(heartbeat_interval_s=30.0, timeout_s=120.0, long_poll_s=60.0),
)
"""A thousand nodes and a million tasks; each node crashes and is cut off six times."""


def share_of_a_day(share: float) -> Scenario:
    """The same day with fewer nodes and tasks, in less time: what a node does stays the same."""
    day = A_BAD_DAY
    return msgspec.structs.replace(
        day,
        nodes=max(int(day.nodes * share), 1),
        tasks=int(day.tasks * share * share),
        rough_s=day.rough_s * share,
        batches=tuple(max(int(each * share), 1) for each in day.batches),
    )
