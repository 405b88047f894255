"""Every attempt to break out is held at the highest level, and what the docs say at others."""

import os
import sys
from pathlib import Path

import pytest

from crawlfleet.core.isolation import level_of
from crawlfleet.model.isolation import Level
from crawlfleet.sandbox import probe
from tests.sandbox import attempts, escapes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("escapes"),  # whether one lives on is seen among all processes
    pytest.mark.skipif(sys.platform != "linux", reason="Linux only"),
    pytest.mark.skipif(os.geteuid() != 0, reason="plays root and a plain user"),
]


def documented(level: Level) -> dict[str, bool]:
    """What the table of the docs says was held, by the title of the attempt."""
    text, _, _ = escapes.PAGE.read_text().partition("\n## ")
    lines = [line.split(" | ") for line in text.splitlines() if "|" in line]
    column = next(number for number, head in enumerate(lines[0]) if head.strip(" |") == level.value)
    return {line[0].strip("| "): "not held" not in line[column] for line in lines[2:-1]}


def test_nothing_breaks_out_of_the_highest_level() -> None:
    level = level_of(frozenset(probe.detect().layers))
    assert level >= Level.L2, "this machine cannot hold foreign code; see `crawlfleet doctor`"
    outcomes = escapes.outcomes_as(None, level)
    assert len(outcomes) == len(attempts.ATTEMPTS) >= 30
    assert [each for each in outcomes if not each.held] == []
    assert all(each.by for each in outcomes)


@pytest.mark.parametrize("level", [Level.L2, Level.L1, Level.L0])
def test_lower_levels_hold_what_the_docs_say(level: Level) -> None:
    says = documented(level)
    outcomes = escapes.outcomes_as(escapes.PLAIN_USER, level)
    held = {attempts.ATTEMPTS[each.name][0]: each.held for each in outcomes}
    wrong = {title: held[title] for title, was in says.items() if was and not held[title]}
    assert wrong == {}


@pytest.mark.parametrize("level", [Level.L1, Level.L0])
def test_a_worker_that_is_root_lends_nothing_of_it_at_any_level(level: Level) -> None:
    names = (
        *("be_root", "become_root", "use_capability", "set_uid_program", "leave_set_uid"),
        *("node_token", "other_scratch", "private_file", "open_to_all", "give_away"),
        *("replace_program", "change_package", "kernel_settings", "make_disk_node"),
    )
    outcomes = escapes.outcomes_as(0, level, names)
    assert [each for each in outcomes if not each.held] == []
    assert len(outcomes) == len(names)


def test_the_table_has_every_attempt() -> None:
    text = Path(escapes.PAGE).read_text()
    titles = [title for title, _ in attempts.ATTEMPTS.values()]
    assert [title for title in titles if f"| {title} |" not in text] == []
