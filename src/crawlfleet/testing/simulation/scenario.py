"""Parameters of a simulated world, and its result."""

from typing import Final

import msgspec

from crawlfleet.model.quota import Allowance
from crawlfleet.model.settings import BreakerSettings, RecoverySettings, SessionSettings
from crawlfleet.testing.simulation.faults import Rates


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a world and the rate of its failures."""

    masters: int = 1
    nodes: int = 4
    tasks: int = 60
    rough_s: float = 240.0
    """Seconds for which failures happen."""
    settle_s: float = 900.0
    """Seconds after the failures within which all tasks must end."""
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
    """Maximum delay with which a master learns of another master's commit."""
    freed_late_s: float = 5.0
    """Maximum time for which a dead leader keeps the lead."""
    meddle_every_s: float = 8.0
    new_terms: bool = True
    """True if operators change the timeouts of nodes, too."""
    commit_s: tuple[float, ...] = (0.0, 0.002, 0.1)
    """Durations of a commit; commits are serial."""
    submit_every_s: float = 8.0
    """Maximum seconds between two batches."""
    batches: tuple[int, ...] = (1, 2, 5, 30)
    work_s: tuple[float, ...] = (0.1, 1.0, 5.0, 30.0)
    limits_s: tuple[float | None, ...] = (None, 3.0, 10.0)
    dedup: bool = True
    """True if some tasks share a `dedup_key`, so that most of those are not accepted."""
    shards: tuple[int, ...] = (1, 1, 1, 1, 1, 1, 1, 2, 4)
    """Into how many shards tasks are split."""
    allowances: tuple[Allowance, ...] = ()
    """Quotas of the projects, one each; when empty, all tasks belong to the default project."""
    schedules: int = 0
    """Number of schedules that submit tasks, by intervals of seconds."""
    workflows: int = 0
    """Number of workflows that are submitted; some of them are cancelled and repeated."""
    expecting: float = 0.0
    """Share of the tasks that have expectations of their items."""
    audit_every_s: float = 5.0
    """Maximum seconds between two checks of the masters' bookkeeping, which take long in a large
    fleet."""
    session: SessionSettings = SessionSettings()
    recovery: RecoverySettings = RecoverySettings()
    breakers: BreakerSettings = BreakerSettings()
    targets: tuple[str | None, ...] = ()
    """Sites that tasks depend on, some of which seem to be down for a while."""


class ScenarioOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a simulated world."""

    seed: int
    by_status: dict[str, int]
    commits: int
    master_lives: int
    simulated_s: float
    fingerprint: str
    """Hash over all changes in their order: the same for the same seed."""


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
    """Return a day of the same failure rates with fewer nodes and tasks, in less time; the load of
    each node stays the same."""
    day = A_BAD_DAY
    return msgspec.structs.replace(
        day,
        nodes=max(int(day.nodes * share), 1),
        tasks=int(day.tasks * share * share),
        rough_s=day.rough_s * share,
        batches=tuple(max(int(each * share), 1) for each in day.batches),
    )
