"""What `crawlfleet crawl` sends to a fleet, and what it makes of what comes back."""

import gzip
import io
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import Result
from warcio.archiveiterator import ArchiveIterator

from crawlfleet import zstd
from crawlfleet.adapters.sinks.warc import WarcFormat
from crawlfleet.cli.crawl.download import pack, records_in
from crawlfleet.cli.crawl.fleet import CrawlOrder, check, key_of, request_of, summary_of
from crawlfleet.cli.crawl.outputs import outputs_of
from crawlfleet.cli.crawl.progress import sight_from_afar
from crawlfleet.cli.crawl.state import CrawlState, SubmittedCrawl
from crawlfleet.crawl.engine.crawl import Summary
from crawlfleet.errors import ConfigError, InvalidRequest
from crawlfleet.features.crawls.views import CrawlView, OutputView
from crawlfleet.model.crawl.figures import CrawlFigures, HostReport
from crawlfleet.model.crawl.parameters import CrawlParameters, Fetching, Limits, Politeness
from crawlfleet.ports.sink import PageRecord

Run = Callable[..., Result]


def order(*places: str, **parameters: object) -> CrawlOrder:
    outputs = outputs_of(places or ["items.jsonl"])
    given = {"urls": ("https://shop.example/",), "selectors": {"title": "h1"}, **parameters}
    sinks = tuple(output.spec for output in outputs)
    return CrawlOrder(parameters=CrawlParameters(**given, sinks=sinks), outputs=outputs)  # type: ignore[arg-type]


def view(state: str = "completed", **fields: object) -> CrawlView:
    return CrawlView(
        task_id="task-1",
        state=state,
        project="default",
        name="shop.example",
        url="https://shop.example/",
        created_at=datetime(2026, 11, 15, 9, 0, tzinfo=UTC),
        started_at=datetime(2026, 11, 15, 9, 0, 1, tzinfo=UTC),
        finished_at=datetime(2026, 11, 15, 9, 0, 11, tzinfo=UTC),
        **fields,  # type: ignore[arg-type]
    )


def test_only_what_differs_from_the_defaults_is_sent() -> None:
    asked = order(
        limits=Limits(max_pages=7),
        politeness=Politeness(delay_s=0.5),
        fetching=Fetching(headers={"Accept-Language": "de"}),
        workers=4,
    )
    assert request_of(asked) == {
        "parameters": {
            "urls": ("https://shop.example/",),
            "selectors": {"title": "h1"},
            "limits": {"max_pages": 7},
            "politeness": {"delay_s": 0.5},
            "fetching": {"headers": {"Accept-Language": "de"}},
            "workers": 4,
        }
    }


def test_pages_are_asked_for_where_an_archive_is_wanted() -> None:
    parameters = request_of(order("a.jsonl", "b.warc.gz"))["parameters"]
    assert parameters["sinks"][0]["url"] == "fleet:pages"


def test_the_key_follows_from_what_is_asked_and_not_from_where_it_goes() -> None:
    key = key_of(request_of(order("a.jsonl")))
    assert key == key_of(request_of(order("b.csv")))
    assert key != key_of(request_of(order("a.jsonl", workers=2)))
    assert key != key_of(request_of(order("a.jsonl", depth=1)))


@pytest.mark.parametrize("place", ["sqlite:///shop.db?table=x", "items.csv"])
def test_what_cannot_become_a_file_is_refused_first(place: str) -> None:
    with pytest.raises(InvalidRequest):
        check(order(place, selectors={}))


def test_the_summary_is_that_of_a_crawl_here() -> None:
    figures = CrawlFigures(pages=9, known=12, waiting=2, in_flight=1, depths=(1, 11), rejected=3)
    output = OutputView(items=5, bytes=80, formats=("jsonl",))
    summary = summary_of(view(figures=figures, output=output), order().parameters, {})
    assert (summary.finished, summary.waiting, summary.why) == (
        False,
        3,
        "ended early, as ordered",
    )
    assert (summary.depths, summary.items, summary.elapsed_s) == ({0: 1, 1: 11}, 5, 10.0)
    assert summary.task_id == "task-1"

    capped = order(limits=Limits(max_pages=9)).parameters
    assert summary_of(view(figures=figures), capped, {}).finished
    timed = order(limits=Limits(max_seconds=10)).parameters
    assert summary_of(view(figures=figures), timed, {}).why == "limits.max_seconds (10) are over"


def test_what_is_seen_from_afar_is_what_is_seen_here() -> None:
    hosts = (
        HostReport(host="https://a.example", latency_ms=120.0),
        HostReport(host="https://b.example", latency_ms=800.0, rests_until=60.0, why="429"),
    )
    sight = sight_from_afar(CrawlFigures(at=50.0, pages=3, waiting=4, in_flight=1, hosts=hosts))
    assert (sight.pages, sight.outstanding) == (3, 5)
    assert sight.slowest == (("https://b.example", 0.8), ("https://a.example", 0.12))
    assert sight.pause == "https://b.example: 429"
    assert not sight_from_afar(CrawlFigures(at=70.0, hosts=hosts)).pause
    assert sight_from_afar(None, remark="waits").remark == "waits"


class TestWhatIsWrittenDown:
    @pytest.fixture
    def state(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CrawlState:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        asked = order(str(tmp_path / "items.jsonl"))
        return CrawlState.of(asked.outputs, asked.parameters, on_fleet=True)

    def test_a_file_of_somebody_else_is_not_replaced(
        self, state: CrawlState, tmp_path: Path
    ) -> None:
        state.begin()
        file = tmp_path / "items.jsonl"
        file.write_text("precious\n")
        draft = state.drafts / "draft"
        draft.write_text("{}\n")
        with pytest.raises(ConfigError, match="exists already"):
            state.place(draft, file)
        assert file.read_text() == "precious\n"

        file.unlink()
        state.place(draft, file)
        assert file.read_text() == "{}\n"
        draft.write_text("{}\n{}\n")
        state.place(draft, file)  # it is ours
        assert file.read_text() == "{}\n{}\n"

    def test_whoever_asked_for_it_replaces_what_is_there(
        self, state: CrawlState, tmp_path: Path
    ) -> None:
        file = tmp_path / "items.jsonl"
        file.write_text("old\n")
        state.begin(replacing=True)
        draft = state.drafts / "draft"
        draft.write_text("new\n")
        state.place(draft, file)
        assert file.read_text() == "new\n"

    def test_a_finished_crawl_whose_file_is_gone_is_fetched_again(
        self, state: CrawlState, tmp_path: Path
    ) -> None:
        state.begin()
        state.send(SubmittedCrawl(key="k", task_id="task-1"))
        draft = state.drafts / "draft"
        draft.write_text("{}\n")
        state.place(draft, tmp_path / "items.jsonl")
        ended = summary_of(view(), order().parameters, {})
        assert isinstance(state.end(ended), Summary)
        assert state.finished() == ended
        (tmp_path / "items.jsonl").unlink()
        assert state.finished() is None
        assert state.sent == SubmittedCrawl(key="k", task_id="task-1")


class TestPacking:
    def archive(self) -> bytes:
        body = b"WARC/1.1\r\nContent-Length: 5\r\n\r\n" * 3
        pages = [
            PageRecord(id=n, url=f"http://a.example/{n}", at=0.0, status=200, body=body * n)
            for n in range(3)
        ]
        units, _ = WarcFormat().encode(pages)
        return b"".join([WarcFormat().head("x"), *units])

    def test_records_of_an_archive_are_told_apart(self) -> None:
        whole = self.archive()
        found = [*records_in(io.BytesIO(whole))]
        assert len(found) == 7
        assert b"".join(found) == whole

    def test_each_record_is_packed_by_itself(self, tmp_path: Path) -> None:
        plain, packed = tmp_path / "a.warc", tmp_path / "a.warc.gz"
        plain.write_bytes(self.archive())
        pack(plain, packed, "warc", "gzip")
        with packed.open("rb") as file:
            kinds = [record.rec_type for record in ArchiveIterator(file)]
        assert kinds == ["warcinfo", *["response", "request"] * 3]
        assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()

    @pytest.mark.parametrize("content", [b"", b"{}\n" * 700_000])
    def test_lines_are_packed_whole(self, tmp_path: Path, content: bytes) -> None:
        plain = tmp_path / "a.jsonl"
        plain.write_bytes(content)
        pack(plain, tmp_path / "a.gz", "jsonl", "gzip")
        assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == content
        pack(plain, tmp_path / "a.zst", "jsonl", "zstd")
        assert zstd.decompress((tmp_path / "a.zst").read_bytes()) == content


@pytest.mark.parametrize(
    "options",
    [
        ("--project", "x"),
        ("--cancel-on-interrupt",),
        ("--key", "k"),
        ("--fleet", "--revisit"),
    ],
)
def test_options_that_do_not_fit_are_told(options: tuple[str, ...], run: Run) -> None:
    result = run("crawl", "https://shop.example", "-o", "x.jsonl", *options)
    assert result.exit_code == 2


def test_without_a_fleet_it_says_so(run: Run) -> None:
    result: Result = run("crawl", "https://shop.example", "-o", "x.jsonl", "--fleet")
    assert result.exit_code == 3
    assert "--master" in result.stderr
