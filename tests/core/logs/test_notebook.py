"""A notebook keeps the first and the last lines, and knows what the master has to forget."""

from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.core.logs.notebook import (
    LINE_BYTES,
    MAX_FIELDS_BYTES,
    MAX_MESSAGE_CHARS,
    Notebook,
    left_out_line,
    levels_from,
    trim,
)
from crawlfleet.model.log import Gap, LogLevel, LogLine

ALL = {"most_lines": 10**6, "most_bytes": 10**9}


class Master:
    """Applies parts like a store does."""

    def __init__(self) -> None:
        self.lines: dict[int, LogLine] = {}

    def take(self, book: Notebook, *, lines: int = 10**6, confirm: bool = True) -> None:
        part, _ = book.news(most_lines=lines, most_bytes=10**9)
        if part.left_out is not None:
            gap = part.left_out
            for seq in [seq for seq in self.lines if gap.first <= seq <= gap.last]:
                del self.lines[seq]
        self.lines.update((line.seq, line) for line in part.lines)
        if confirm:
            book.confirm(part)

    def size(self) -> int:
        return sum(trim(line.message, line.fields)[2] for line in self.lines.values())


def write(book: Notebook, *messages: str) -> None:
    for message in messages:
        book.write(message, LogLevel.INFO, {}, 0.0)


def test_a_small_log_is_sent_whole_and_once() -> None:
    book = Notebook("e", 1_000_000)
    write(book, "a", "b", "c")
    part, size = book.news(most_lines=2, most_bytes=1000)

    assert [(line.seq, line.message) for line in part.lines] == [(1, "a"), (2, "b")]
    assert size == 2 * (LINE_BYTES + 1)
    assert part.left_out is None
    book.confirm(part)
    rest, _ = book.news(**ALL)
    assert [line.seq for line in rest.lines] == [3]
    book.confirm(rest)
    assert not book.has_news
    assert book.unsent_bytes == 0


def test_what_was_not_confirmed_is_sent_again() -> None:
    book = Notebook("e", 1_000_000)
    write(book, "a", "b")
    first, _ = book.news(**ALL)

    assert book.news(**ALL)[0] == first
    assert book.has_news


def test_the_middle_gives_way_whether_it_was_sent_or_not() -> None:
    for sent_every in (1, 7, 10**6):
        book, master = Notebook("e", 4_000), Master()
        for number in range(1000):
            write(book, f"line {number:03}")
            if number % sent_every == 0:
                master.take(book)
        while book.has_news:
            master.take(book)

        kept = sorted(master.lines)
        head = LINE_BYTES + len("line 000")
        assert kept[:2] == [1, 2]
        assert kept[-1] == 1000
        assert master.size() <= 4_000
        assert len(kept) >= 4_000 // head - 2
        gap = book.left_out
        assert gap is not None
        assert set(kept) == set(range(1, 1001)) - set(range(gap.first, gap.last + 1))


def test_a_line_that_gave_way_while_it_travelled_is_forgotten_with_the_next_part() -> None:
    book, master = Notebook("e", 400), Master()
    write(book, *("x" * 10 for _ in range(8)))
    part, _ = book.news(**ALL)
    write(book, *("y" * 10 for _ in range(100)))
    master.lines.update((line.seq, line) for line in part.lines)
    book.confirm(part)
    while book.has_news:
        master.take(book)

    assert master.size() <= 400


def test_one_line_larger_than_the_cap_is_kept() -> None:
    book = Notebook("e", 100)
    write(book, "x" * 1000)

    assert [line.seq for line in book.news(**ALL)[0].lines] == [1]


def test_long_messages_and_many_fields_are_cut_to_what_is_kept() -> None:
    message, fields, size = trim("x" * 5000, {"a": "y" * 10_000})

    assert message.startswith("x" * MAX_MESSAGE_CHARS)
    assert message.endswith("(5000 characters)")
    assert fields == {"left_out": "1 fields of 10008 bytes"}
    assert size < MAX_MESSAGE_CHARS + MAX_FIELDS_BYTES


def test_no_line_has_a_character_that_a_store_cannot_keep() -> None:
    assert trim("a\0b", {})[0] == "a\\x00b"


def test_a_line_says_how_many_were_left_out() -> None:
    line = left_out_line(Gap(first=3, last=12), at=5.0)

    assert (line.seq, line.at, line.fields) == (3, 5.0, {"left_out": 10})
    assert line.message.startswith("10 lines were left out")
    assert "1 line was" in left_out_line(Gap(first=3, last=3), at=5.0).message


def test_levels_are_those_from_one_on() -> None:
    assert levels_from(LogLevel.DEBUG) == (*LogLevel,)
    assert levels_from(LogLevel.WARNING) == (LogLevel.WARNING, LogLevel.ERROR)


@given(
    cap=st.integers(200, 3000),
    steps=st.lists(
        st.one_of(
            st.integers(0, 120),  # a line of so many characters
            st.sampled_from(["send", "lose"]),
        ),
        max_size=200,
    ),
)
def test_the_master_never_keeps_more_than_the_cap_and_always_the_ends(
    cap: int, steps: list[int | str]
) -> None:
    book, master = Notebook("e", cap), Master()
    written = 0
    for step in steps:
        if isinstance(step, int):
            written += 1
            write(book, "x" * step)
        else:
            master.take(book, lines=5, confirm=step == "send")
    while book.has_news:
        master.take(book, lines=5)

    largest = LINE_BYTES + 120
    assert master.size() <= cap + largest
    gap = book.left_out
    missing = set() if gap is None else set(range(gap.first, gap.last + 1))
    assert set(master.lines) == set(range(1, written + 1)) - missing
    assert written == 0 or written in master.lines
    assert book.unsent_bytes == 0
