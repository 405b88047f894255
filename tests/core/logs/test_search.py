"""Which lines are wanted, and how much of all logs is kept."""

import pytest

from crawlfleet.core.logs.retention import STRETCH_S, LogCut, find_cut, start_of, stretch_of
from crawlfleet.core.logs.search import make_filter, shown
from crawlfleet.errors import InvalidRequest
from crawlfleet.model.log import LogLevel, LogLine, LogSize


def test_a_line_is_searched_as_it_is_shown() -> None:
    line = LogLine(seq=1, at=0.0, message="slow", fields={"url": "http://a", "ms": 7, "of": [1]})

    assert shown(line) == "slow  url=http://a  ms=7  of=[1]"


@pytest.mark.parametrize("text", ["(", "a(?=b)", r"(.)\1", "[z-a]", "*"])
def test_what_is_no_expression_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(InvalidRequest, match="no regular expression") as caught:
        make_filter(text, is_regex=True, least=LogLevel.DEBUG)

    (problem,) = caught.value.problems
    assert problem.field == "q"
    assert "RE2" in problem.remedy


@pytest.mark.parametrize("text", ["(a{1,100}){1,100}", "((x{1000}){1000})", "\\pL{900}"])
def test_what_would_cost_too_much_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"q: is (too large|no regular)"):
        make_filter(text, is_regex=True, least=LogLevel.DEBUG)


def test_an_expression_that_makes_others_explode_is_answered() -> None:
    wanted = make_filter("(a+)+$", is_regex=True, least=LogLevel.DEBUG)

    assert not wanted.takes(LogLine(seq=1, at=0.0, message="a" * 2000 + "!"))
    assert wanted.takes(LogLine(seq=1, at=0.0, message="a" * 2000))


def test_broken_text_is_searched() -> None:
    wanted = make_filter("end", is_regex=True, least=LogLevel.DEBUG)

    assert wanted.takes(LogLine(seq=1, at=0.0, message="\udc80 end"))


@pytest.mark.parametrize(
    ("sizes", "most", "cut"),
    [
        ({}, 10, None),
        ({1: (1, 10)}, 10, None),
        ({1: (10, 100), 2: (10, 100)}, 150, LogCut(stretch=1, lines=5)),
        ({1: (10, 100), 2: (10, 100)}, 200, None),
        ({1: (10, 100), 7: (10, 100)}, 100, LogCut(stretch=1, lines=10)),
        ({1: (10, 100), 7: (10, 1000)}, 10, LogCut(stretch=7, lines=10)),
        ({3: (10, 1000)}, 0.0, LogCut(stretch=3, lines=10)),
    ],
)
def test_the_oldest_go(sizes: dict[int, tuple[int, int]], most: float, cut: LogCut | None) -> None:
    known = {each: LogSize(lines=lines, bytes=size) for each, (lines, size) in sizes.items()}

    assert find_cut(known, most=most) == cut


def test_stretches_follow_one_another() -> None:
    assert stretch_of(start_of(5)) == 5
    assert stretch_of(start_of(5) + STRETCH_S - 0.001) == 5
