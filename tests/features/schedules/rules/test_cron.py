"""Cron expressions: what can be read, and what is said about those that cannot."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.errors import FieldProblem
from crawlfleet.features.schedules.rules import cron
from crawlfleet.features.schedules.rules.cron import Cron
from tests.sampling import examples


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("30 2 * * *", "30 2 * * *"),
        ("  30\t2 * *   * ", "30 2 * * *"),
        ("*/15 8-18 * jan-mar,dec mon-fri", "*/15 8-18 * JAN-MAR,DEC MON-FRI"),
        ("0 0 l * *", "0 0 L * *"),
        ("0 0 * * 5l", "0 0 * * 5L"),
        ("0 0 * * fri#2", "0 0 * * FRI#2"),
        ("0 0 29 2 *", "0 0 29 2 *"),
        ("5/10 * * * 7", "5/10 * * * 7"),
        ("@daily", "0 0 * * *"),
        ("@Weekly", "0 0 * * 0"),
    ],
)
def test_what_can_be_read(text: str, fields: str) -> None:
    assert cron.read(text) == Cron(fields)


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("", "has 0 fields, not five", "`30 2 * * *`"),
        ("5", "has 1 field, not five", "@daily"),
        ("0 2 * * * *", "has 6 fields, not five", "minute, hour"),
        ("60 2 * * *", "its 1st field, minute ('60' at character 1)", "use 0 to 59"),
        ("0 2 * * mon,fry", "its 5th field, day of week ('mon,fry' at character 13)", "SUN to SAT"),
        ("0  25 * * *", "its 2nd field, hour ('25' at character 4)", "use 0 to 23"),
        ("0 2 0 * *", "its 3rd field, day of month ('0' at character 5)", "use 1 to 31"),
        ("0 2 * 1-13 *", "its 4th field, month ('1-13' at character 9)", "JAN to DEC"),
        ("*/0 * * * *", "has the step '0'", "`*/2`"),
        ("*/x * * * *", "at character 3), has the step 'X'", "`*/2`"),
        ("0 2,, * * *", "has an empty place in its list", "comma"),
        ("0 2 * * sat-sun", "ends before it begins", "`SAT-7,0-SUN`"),
        ("0 22-4 * * *", "ends before it begins", "`22-23,0-4`"),
        ("0 0 31 2 *", "never comes", "28 2"),
        ("0 0 30,31 feb *", "never comes", "L for the last"),
        ("0 0 */20 1 1L", "never comes", "28 2"),
        ("@reboot", "is not a known name", "@hourly"),
        ("0 0 * * 5#6", "'5#6'", "use 0 to 7"),
        ("0 0 * * *" + " " * 200, "is too long", "200 characters"),
        ("٣ 0 * * *", "its 1st field", "use 0 to 59"),
    ],
)
def test_what_cannot_is_told_with_field_place_and_remedy(
    text: str, message: str, remedy: str
) -> None:
    problem = cron.read(text)
    assert isinstance(problem, FieldProblem)
    assert problem.field == "cron"
    assert message in problem.message
    assert remedy in problem.remedy


@given(st.text(max_size=30) | st.text("0123456789*/-,LW#@ MONJAN", max_size=30))
@settings(deadline=None, max_examples=examples(300))
def test_any_text_is_read_or_complained_about(text: str) -> None:
    read = cron.read(text)
    assert isinstance(read, Cron) or (read.message and read.remedy)


@pytest.mark.parametrize(
    ("text", "follows"),
    [("0 2 * * *", False), ("0 */2 * * *", True), ("* 2 * * *", True), ("0,30 1-3 * * *", False)],
)
def test_elapsed_time_is_told_from_times_of_the_day(text: str, follows: bool) -> None:
    read = cron.read(text)
    assert isinstance(read, Cron)
    assert read.follows_the_clock is follows
