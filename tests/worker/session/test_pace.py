"""How much work lies ready at a node."""

from crawlfleet.worker.session.pace import HORIZON_S, MOST, Pace


def ended(pace: Pace, executions: int) -> Pace:
    for _ in range(executions):
        pace.count_end()
    return pace


def test_a_new_node_hoards_nothing() -> None:
    assert Pace(0.0).backlog(1.0) == 0


def test_a_node_with_long_tasks_hoards_nothing() -> None:
    pace = Pace(0.0)
    for second in range(1, 60):
        assert ended(pace, 4).backlog(float(second)) == 0


def test_a_node_with_short_tasks_gets_work_for_a_round_trip() -> None:
    pace = Pace(0.0)
    for tenth in range(1, 20):
        ended(pace, 100).backlog(tenth / 10)
    expected = 1_000 * HORIZON_S
    assert expected <= ended(pace, 100).backlog(2.0) < expected * 2


def test_the_backlog_is_bounded_however_fast_the_node_is() -> None:
    assert ended(Pace(0.0), 1_000_000).backlog(0.001) == MOST


def test_what_was_too_much_is_not_asked_for_again() -> None:
    pace = ended(Pace(0.0), 1_000)
    assert pace.backlog(0.1) > 0
    pace.hold_back()
    assert pace.backlog(0.2) == 0


def test_an_idle_node_forgets_how_fast_it_was() -> None:
    pace = ended(Pace(0.0), 1_000)
    pace.backlog(0.1)
    for second in range(1, 20):
        last = pace.backlog(float(second))
    assert last == 0
