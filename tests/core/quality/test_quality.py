"""What is measured of items, what it comes to, and what may be expected at all."""

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.cli.shell.workflow_file import read_yaml
from crawlfleet.core.quality import expectations, figures, sketch
from crawlfleet.core.quality.acceptance import Held, Rejected, held_by, in_words
from crawlfleet.core.quality.profile import Fold, items_of_lines, items_of_result, number_in
from crawlfleet.core.quality.recording import QualityRecord, decided, in_result, signed, undecidable
from crawlfleet.core.quality.verdict import Baseline, baseline, judge
from crawlfleet.core.tasks.admission import AdmissionRules
from crawlfleet.features.workflows.rules import document, validation
from crawlfleet.model.change import Change
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.model.quality import (
    MAX_FIELDS,
    Check,
    CheckOutcome,
    Decision,
    Expectations,
    FieldProfile,
    Judgement,
    MeasuredRun,
    OnDrift,
    Profile,
    Verdict,
)
from crawlfleet.testing.store_suite.quality_samples import make_measured
from crawlfleet.testing.store_suite.samples import make_task

EXAMPLES = Path(__file__).parents[3] / "examples"
quick = settings(max_examples=25, deadline=None)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["", "  ", "1", "-2.5", "1e3", "12 €"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from("xy"), st.integers(), max_size=2),
)
ITEMS = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c.d", "e"]), VALUES, max_size=4))


def expect(**fields: Any) -> Expectations:
    return msgspec.convert(fields, Expectations)


def measured(items: list[Any], expected: Expectations | None = None, **figures: Any) -> Profile:
    fold = Fold(expected or Expectations())
    fold.take([("items", each) for each in items])
    return fold.profile(**figures)


def outcomes(judgement: Judgement) -> dict[str, str]:
    return {each.name: str(each.outcome) for each in judgement.checks}


NOTHING = Baseline()


def verdict(expected: Expectations, profile: Profile, base: Baseline = NOTHING) -> Verdict:
    return judge(expected, profile, base).verdict


class TestProfiles:
    def test_fields_are_counted_as_present_filled_and_what_they_are(self) -> None:
        found = measured(
            [
                {"price": 2, "name": "a", "tags": []},
                {"price": "3.5", "name": " ", "tags": ["x"]},
                {"price": None, "on": False},
                "no object at all",
            ]
        )
        assert found.items == 4
        assert found.fields is not None
        price, name, tags = (found.fields[each] for each in ("price", "name", "tags"))
        assert (price.present, price.filled, price.kinds) == (2, 2, {"number": 1, "text": 1})
        assert (price.numbers, price.low, price.high, price.mean) == (2, 2.0, 3.5, 2.75)
        assert (name.present, name.filled, name.distinct) == (2, 1, 1)
        assert (tags.present, tags.filled, tags.kinds) == (2, 1, {"list": 1})
        assert found.fields["on"].kinds == {"flag": 1}

    def test_only_items_of_the_kind_that_is_meant_count(self) -> None:
        fold = Fold(expect(kind="product"))
        fold.take([("product", {"a": 1}), ("review", {"b": 1}), ("product", {})])
        found = fold.profile()
        assert found.items == 2
        assert found.fields is not None
        assert set(found.fields) == {"a"}

    def test_a_path_leads_into_objects_unless_a_field_has_that_very_name(self) -> None:
        expected = expect(fields={"offer.price": {"present": 1}})
        found = measured([{"offer": {"price": 1}}, {"offer.price": 2}, {"offer": 3}], expected)
        assert found.fields is not None
        assert found.fields["offer.price"].present == 2

    def test_values_fit_by_type_pattern_and_range_together(self) -> None:
        expected = expect(fields={"p": {"type": "text", "pattern": "^[0-9.]+$", "min": 1}})
        found = measured([{"p": each} for each in ("2", "0.5", "x", 3, "4.0", "")], expected)
        assert found.fields is not None
        assert (found.fields["p"].filled, found.fields["p"].fitting) == (5, 2)

    @pytest.mark.parametrize(
        ("kind", "fitting"),
        [("integer", 2), ("number", 3), ("flag", 1), ("text", 1), ("object", 1), ("list", 1)],
    )
    def test_each_kind_of_value_is_told_from_the_others(self, kind: str, fitting: int) -> None:
        values = [1, 2.0, 2.5, True, "x", {"a": 1}, [1]]
        found = measured([{"v": each} for each in values], expect(fields={"v": {"type": kind}}))
        assert found.fields is not None
        assert found.fields["v"].fitting == fitting

    @pytest.mark.parametrize(
        ("value", "number"),
        [("12", 12.0), (" -1.5 ", -1.5), (".5", 0.5), ("12 €", None), ("1e999", None), (True, None),
         (10**400, None), ("nan", None), ([], None), (0, 0.0)],
    )  # fmt: skip
    def test_numbers_in_texts_are_numbers(self, value: Any, number: float | None) -> None:
        assert number_in(value) == number

    def test_no_more_fields_are_measured_than_fit_and_named_ones_always(self) -> None:
        item = {f"f{number}": number for number in range(MAX_FIELDS + 20)}
        found = measured([item], expect(fields={"last": {"present": 1}}))
        assert found.fields is not None
        assert len(found.fields) == MAX_FIELDS
        assert "last" in found.fields

    @quick
    @given(ITEMS, st.data())
    def test_it_does_not_matter_in_which_portions_items_come(
        self, items: list[dict[str, Any]], data: st.DataObject
    ) -> None:
        expected = expect(fields={"a": {"type": "number"}, "c.d": {"pattern": "1"}})
        at = data.draw(st.integers(0, len(items)))
        fold = Fold(expected)
        for portion in (items[:at], items[at:]):
            fold.take([("items", each) for each in portion])
        parted, whole = fold.profile(), measured(items, expected)
        assert parted.fields is not None
        assert whole.fields is not None
        assert parted.items == whole.items == len(items)
        assert parted.fields.keys() == whole.fields.keys()
        for name, field in whole.fields.items():
            other = parted.fields[name]
            assert msgspec.structs.replace(other, mean=None) == msgspec.structs.replace(
                field, mean=None
            )
            assert other.mean == pytest.approx(field.mean)
            assert field.filled <= field.present <= len(items)
            assert sum(field.kinds.values()) == field.filled
            assert (field.fitting or 0) <= field.filled

    @quick
    @given(st.lists(st.tuples(st.sampled_from("ab"), st.dictionaries(st.text(), VALUES))))
    def test_lines_are_read_as_they_were_written(self, items: list[tuple[str, Any]]) -> None:
        lines = b"".join(msgspec.json.encode(each) + b"\n" for each in items)
        read = items_of_lines(lines)
        assert [kind for kind, _ in read] == [kind for kind, _ in items]
        assert [set(fields) for _, fields in read] == [set(fields) for _, fields in items]

    @pytest.mark.parametrize(
        ("data", "items"),
        [
            (None, []),
            ({}, []),
            ([1, {"a": 2}], [("items", 1), ("items", {"a": 2})]),
            ({"items": [1], "more": 2}, [("items", 1)]),
            ({"product": [1], "review": [2]}, [("product", 1), ("review", 2)]),
            ({"urls": 1, "pages": [{"url": "u"}], "errors": []}, [("pages", {"url": "u"})]),
            ({"status": 200}, [("items", {"status": 200})]),
            ("text", [("items", "text")]),
        ],
    )
    def test_the_items_of_a_result(self, data: Any, items: list[Any]) -> None:
        assert items_of_result(data) == items


class TestSketches:
    @quick
    @given(st.lists(VALUES.filter(lambda value: value is not None), max_size=120))
    def test_few_different_values_are_counted_exactly(self, values: list[Any]) -> None:
        one, other = sketch.Sketch(), sketch.Sketch()
        one.take(values)
        other.take([*reversed(values), *values])
        assert one.text() == other.text()
        assert one.distinct() == len({sketch.number_of(each) for each in values})
        assert one.error() == 0
        if values:
            assert sketch.changed(one.text(), other.text()) == (0, 0)

    @pytest.mark.parametrize("count", [127, 2_000, 3_000, 50_000])
    def test_many_are_counted_or_estimated_and_take_a_kilobyte(self, count: int) -> None:
        taken = sketch.Sketch()
        for first in range(0, count, 500):
            taken.take([f"value {number}" for number in range(first, min(first + 700, count))])
        assert len(taken.text()) <= 1_400
        if count < sketch.COUNTED:
            assert (taken.distinct(), taken.error()) == (count, 0)
        else:
            assert 0 < taken.error() < 0.07
            assert taken.distinct() == pytest.approx(count, rel=taken.error())

    @pytest.mark.parametrize(("size", "shared"), [(40, 30), (40, 0), (5_000, 4_000), (5_000, 0)])
    def test_what_two_runs_share_is_seen(self, size: int, shared: int) -> None:
        before, after = sketch.Sketch(), sketch.Sketch()
        before.take(range(size))
        after.take(range(size - shared, 2 * size - shared))
        expected = 1 - shared / (2 * size - shared)
        changed = sketch.changed(before.text(), after.text())
        assert changed is not None
        assert changed.share == pytest.approx(expected, abs=changed.error + 1e-9)
        assert (changed.error > 0) == (size > 64 and shared > 0)

    def test_equal_numbers_are_equal_and_what_is_no_sketch_is_empty(self) -> None:
        assert sketch.number_of(2) == sketch.number_of(2.0) != sketch.number_of("2")
        assert sketch.number_of({"a": 1, "b": 2}) == sketch.number_of({"b": 2, "a": 1})
        assert sketch.number_of(True) != sketch.number_of(1)
        assert sketch.read("no base64!") == []
        assert sketch.changed("", "") is None


class TestEstimates:
    """What is estimated breaks nothing by chance, and still finds what is broken."""

    @pytest.mark.parametrize("turn", range(4))
    @pytest.mark.parametrize("count", [2_000, 6_000])
    def test_a_key_that_is_different_in_every_item_is_as_expected(
        self, count: int, turn: int
    ) -> None:
        expected = expect(fields={"url": {"distinct": {"min": 0.99}}})
        urls = [("items", {"url": f"{turn}/{number}"}) for number in range(count)]
        fold = Fold(expected)
        fold.take(urls)
        assert judge(expected, fold.profile(), Baseline()).verdict is Verdict.OK

    @pytest.mark.parametrize("count", [2_000, 20_000])
    def test_a_key_that_is_half_the_same_is_not(self, count: int) -> None:
        expected = expect(fields={"url": {"distinct": {"min": 0.6}}})
        fold = Fold(expected)
        fold.take(("items", {"url": max(number - count // 2, 0)}) for number in range(count))
        judged = judge(expected, fold.profile(), Baseline())
        assert judged.verdict is Verdict.FAILED
        assert judged.checks[0].words.startswith("about") == (count > 5_000)

    @pytest.mark.parametrize("turn", range(3))
    def test_as_many_different_values_as_usual_have_not_drifted(self, turn: int) -> None:
        expected = expect(series="s", drift={"least": 1, "fields": {"url": {"distinct": 0.001}}})

        def profile(of: int) -> Profile:
            fold = Fold(expected)
            fold.take(("items", {"url": f"{of}/{number}"}) for number in range(5_000))
            return fold.profile()

        base = Baseline(profiles=(profile(turn),))
        assert judge(expected, profile(turn + 1), base).verdict is Verdict.OK
        none = Fold(expected).profile()
        assert judge(expected, none, base).verdict is Verdict.DRIFTED

    def test_numbers_that_are_too_great_for_a_mean_hide_nothing_else(self) -> None:
        fold = Fold(expect(fields={"price": {"max": 5}}))
        fold.take([("items", {"price": each}) for each in (1e308, 1.7e308, 1e308, 3)])
        fold.take([("items", {"price": 4})])
        field = (fold.profile().fields or {})["price"]
        assert (field.numbers, field.fitting, field.mean) == (5, 2, None)
        assert (field.low, field.high) == (3, 1.7e308)

    @pytest.mark.parametrize("pages", [math.inf, -math.inf, math.nan, 1e300])
    def test_what_nobody_can_have_counted_is_not_known(self, pages: float) -> None:
        assert figures.pages_in({"fetched": pages}) is None
        assert figures.errors_in({"fetched": pages, "failed": 1}) is None
        assert figures.errors_in({"fetched": 1, "failed": pages}) is None
        assert figures.unseen(expect(), {"items": pages}).items is None


class TestJudging:
    @pytest.mark.parametrize(
        ("expected", "broken"),
        [
            ({"items": {"min": 3}}, False),
            ({"items": {"min": 5}}, True),
            ({"items": {"max": 3}}, True),
            ({"pages": {"min": 10, "max": 10}}, False),
            ({"errors": 0.2}, False),
            ({"errors": 0.05}, True),
            ({"fields": {"price": {"present": 0.75}}}, False),
            ({"fields": {"price": {"present": 0.8}}}, True),
            ({"fields": {"price": {"empty": 0.5}}}, False),
            ({"fields": {"price": {"empty": 0.4}}}, True),
            ({"fields": {"price": {"type": "number"}}}, False),
            ({"fields": {"price": {"min": 5}}}, True),
            ({"fields": {"price": {"min": 5, "share": 0.5}}}, False),
            ({"fields": {"price": {"distinct": {"min": 1}}}}, False),
            ({"fields": {"price": {"distinct": {"max": 0.5}}}}, True),
            ({"fields": {"nowhere": {"present": 0.1}}}, True),
            ({"fields": {"nowhere": {"empty": 0.9}}}, True),
        ],
    )
    def test_each_expectation_of_every_run(self, expected: dict[str, Any], broken: bool) -> None:
        wanted = expect(**expected)
        items = [{"price": 1}, {"price": 9}, {"price": ""}, {"other": 1}]
        judgement = judge(wanted, measured(items, wanted, pages=10, errors=0.1), Baseline())
        assert judgement.verdict is (Verdict.FAILED if broken else Verdict.OK)
        (check,) = judgement.checks
        assert check.outcome is (CheckOutcome.BROKEN if broken else CheckOutcome.MET)
        assert check.measured is not None
        assert "expected: at " in check.words
        assert bool(judgement.words) is broken

    def test_a_crawl_that_finds_nothing_does_not_pass_for_want_of_items(self) -> None:
        for wanted in ({"present": 0.5}, {"empty": 0.5}):
            expected = expect(fields={"price": wanted})
            assert verdict(expected, measured([], expected)) is Verdict.FAILED

    def test_shares_do_not_fail_for_the_last_bit(self) -> None:
        expected = expect(fields={"a": {"empty": 0.3, "present": 0.7}})
        items: list[dict[str, Any]] = [{"a": 1}] * 7 + [{}] * 3
        assert verdict(expected, measured(items, expected)) is Verdict.OK

    def test_what_cannot_be_measured_is_neither_met_nor_broken(self) -> None:
        expected = expect(items={"min": 1}, fields={"a": {"present": 1}}, errors=0.1)
        lost = Profile(items=5, trouble="the disk is gone")
        judgement = judge(expected, lost, Baseline())
        assert judgement.verdict is Verdict.UNMEASURED
        assert outcomes(judgement) == {
            "items": "met",
            "fields.a.present": "unknown",
            "errors": "unknown",
        }
        assert "the disk is gone" in judgement.words
        assert verdict(expect(errors=0.1), measured([])) is Verdict.OK

    @quick
    @given(
        st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1)
    )
    def test_wider_bounds_break_nothing(
        self, count: float, low: float, high: float, more: float, wider: float
    ) -> None:
        profile = Profile(items=int(count), pages=int(count), errors=wider)
        narrow = expect(items={"min": low, "max": high}, errors=wider / 2)
        wide = expect(items={"min": max(low - more, 0), "max": high + more}, errors=wider)
        if verdict(narrow, profile) is Verdict.OK:
            assert verdict(wide, profile) is Verdict.OK
        assert (verdict(expect(items={"min": low}), profile) is Verdict.OK) == (
            int(count) >= low - 1e-9
        )


def runs(*items: int | MeasuredRun) -> list[MeasuredRun]:
    """Newest first, as stores list them."""
    return [
        each
        if isinstance(each, MeasuredRun)
        else make_measured(number, profile=Profile(items=each, pages=each, errors=0.0, fields={}))
        for number, each in enumerate(items)
    ]


def bad(items: int, decision: Decision = Decision.NONE) -> MeasuredRun:
    profile = Profile(items=items, pages=items, errors=0.0, fields={})
    return make_measured(
        items, verdict=Verdict.DRIFTED, decision=decision, profile=profile, decided_by="ann"
    )


class TestDrift:
    EXPECTED = expect(drift={"items": 0.3, "runs": 5})

    def test_the_median_of_good_runs_is_what_is_usual(self) -> None:
        base = baseline(runs(100, 90, 110, 5000, 100), 5)
        for items, found in ((100, Verdict.OK), (131, Verdict.DRIFTED), (69, Verdict.DRIFTED)):
            assert verdict(self.EXPECTED, Profile(items=items), base) is found
        judgement = judge(self.EXPECTED, Profile(items=12), base)
        assert judgement.words == (
            "items: 12 where 100 are usual; expected: at least 70 and at most 130"
        )
        assert judgement.checks[0].measured == 12

    def test_too_few_runs_say_nothing(self) -> None:
        judgement = judge(self.EXPECTED, Profile(items=1), baseline(runs(100, 100), 5))
        assert judgement.verdict is Verdict.OK
        assert outcomes(judgement) == {"drift.items": "unknown"}
        assert "2 of the 3 earlier runs" in judgement.checks[0].words

    def test_runs_that_were_not_good_are_not_usual(self) -> None:
        found = baseline(runs(bad(1), 100, bad(2), 100, bad(3, Decision.REJECTED), 100), 5)
        assert [each.items for each in found.profiles] == [100, 100, 100]
        assert not found.is_settled

    def test_one_that_was_accepted_is_usual_from_then_on(self) -> None:
        found = baseline(runs(bad(7), 55, bad(50, Decision.ACCEPTED), 100, 100, 100), 5)
        assert [each.items for each in found.profiles] == [55, 50]
        assert found.is_settled
        alone = baseline(runs(bad(50, Decision.ACCEPTED), 100, 100, 100), 5)
        assert verdict(self.EXPECTED, Profile(items=50), alone) is Verdict.OK
        assert verdict(self.EXPECTED, Profile(items=100), alone) is Verdict.DRIFTED

    def test_no_more_runs_count_than_are_asked_for(self) -> None:
        assert len(baseline(runs(*[1] * 30), 7).profiles) == 7

    @pytest.mark.parametrize(
        ("keeps", "found_by"),
        [
            (0.95, "earlier"),  # 5 % less each time: 19 % less than four runs ago, 43 % than eleven
            (1.05, "earlier"),
            (0.99, None),
            (1.0, None),
            (0.6, "recent"),
        ],
    )
    def test_what_changes_a_little_with_each_run_is_found(
        self, keeps: float, found_by: str | None
    ) -> None:
        expected = expect(drift={"items": 0.3})
        history, items = runs(100_000, 100_000, 100_000), 100_000.0
        for _ in range(40):
            items *= keeps
            judgement = judge(expected, Profile(items=round(items)), baseline(history, 7))
            if judgement.verdict is not Verdict.OK:
                break
            history = [*runs(round(items)), *history]
        broken = [each.name for each in judgement.checks if each.outcome is CheckOutcome.BROKEN]
        names = {"earlier": ["drift.earlier.items"], "recent": ["drift.items"], None: []}
        assert broken == names[found_by]
        if found_by == "earlier":
            assert "were usual 8 to 14 runs ago" in judgement.words

    @pytest.mark.parametrize(
        ("history", "earlier"),
        [
            (runs(*range(1, 14)), []),
            (runs(*range(1, 15)), [8, 9, 10, 11, 12, 13, 14]),
            (runs(*range(1, 31)), [8, 9, 10, 11, 12, 13, 14]),
            (runs(bad(99), *range(1, 15)), [8, 9, 10, 11, 12, 13, 14]),
            (runs(1, 2, bad(3, Decision.ACCEPTED), *range(4, 30)), []),
            (runs(*range(1, 14), bad(14, Decision.ACCEPTED)), [8, 9, 10, 11, 12, 13, 14]),
        ],
    )
    def test_runs_of_longer_ago_are_those_that_were_good_and_all_of_them(
        self, history: list[MeasuredRun], earlier: list[int]
    ) -> None:
        for most in (1, 7, 30):
            found = baseline(history, most)
            assert [each.items for each in found.earlier] == earlier
            assert len(found.profiles) <= most

    def test_each_figure_is_held_against_runs_of_longer_ago(self) -> None:
        drift = {
            "items": 0.3,
            "pages": 0.3,
            "errors": 0.05,
            "fields": {"a": {"empty": 0.1, "distinct": 0.5, "changed": {"max": 1.0}}},
        }
        expected = expect(drift=drift)
        old = measured([{"a": number} for number in range(100)], pages=100, errors=0.01)
        now = measured([{"a": 1}] * 40 + [{}] * 10, pages=40, errors=0.2)
        base = Baseline(profiles=(now,) * 7, earlier=(old,) * 7)
        found = outcomes(judge(expected, now, base))
        late = {name: each for name, each in found.items() if name.startswith("drift.earlier.")}
        assert {*late} == {
            f"drift.earlier.{name}"
            for name in ("items", "pages", "errors", "fields.a.empty", "fields.a.distinct")
        }
        assert {*late.values()} == {"broken"}
        assert "broken" not in {each for name, each in found.items() if name not in late}
        # Those of which nobody knew it tell nothing.
        unknown = Baseline(profiles=(now,) * 7, earlier=(Profile(),) * 7)
        assert not [each for each in judge(expected, now, unknown).checks if "earlier" in each.name]

    def test_empty_values_may_grow_by_so_many_points(self) -> None:
        expected = expect(drift={"fields": {"p": {"empty": 0.1}}, "least": 1, "runs": 1})
        base = Baseline(profiles=(Profile(items=100, fields={"p": FieldProfile(filled=98)}),))
        for filled, found in ((98, Verdict.OK), (88, Verdict.OK), (87, Verdict.DRIFTED)):
            profile = Profile(items=100, fields={"p": FieldProfile(filled=filled)})
            assert verdict(expected, profile, base) is found
        assert verdict(expected, Profile(items=100, fields={}), base) is Verdict.DRIFTED

    @pytest.mark.parametrize(
        ("again", "found"), [(100, Verdict.OK), (80, Verdict.OK), (10, Verdict.DRIFTED)]
    )
    def test_the_values_of_a_key_may_change_within_a_band(self, again: int, found: Verdict) -> None:
        expected = expect(drift={"fields": {"url": {"changed": {"max": 0.5}}}, "least": 1})
        before = measured([{"url": number} for number in range(100)], expected)
        after = measured([{"url": number} for number in range(100 - again, 200 - again)], expected)
        assert verdict(expected, after, Baseline(profiles=(before,))) is found

    def test_a_catalogue_that_stands_still_can_be_what_is_wrong(self) -> None:
        expected = expect(drift={"fields": {"price": {"changed": {"min": 0.05}}}, "least": 1})
        same = measured([{"price": number} for number in range(50)], expected)
        assert verdict(expected, same, Baseline(profiles=(same,))) is Verdict.DRIFTED

    def test_different_values_and_errors_and_pages_are_compared_too(self) -> None:
        drift = {"pages": 0.1, "errors": 0.05, "fields": {"a": {"distinct": 0.5}}, "least": 1}
        expected = expect(drift=drift)
        usual = measured([{"a": number} for number in range(10)], pages=100, errors=0.01)
        base = Baseline(profiles=(usual,))
        assert verdict(expected, usual, base) is Verdict.OK
        odd = measured([{"a": 1}] * 10, pages=50, errors=0.5)
        assert set(outcomes(judge(expected, odd, base)).values()) == {"broken"}

    def test_what_every_run_must_be_comes_before_drift(self) -> None:
        expected = expect(items={"min": 10}, drift={"items": 0.1, "least": 1})
        base = baseline(runs(100), 7)
        assert verdict(expected, Profile(items=1), base) is Verdict.FAILED
        assert verdict(expected, Profile(items=50), base) is Verdict.DRIFTED


PLAIN = {"fields": {"price": {"empty": 0.1}}}


@pytest.mark.parametrize(
    ("expected", "field"),
    [
        (PLAIN, None),
        ({**PLAIN, "series": "shop-prices_2.0"}, None),
        ({"drift": {"items": 0.5}, "series": "schedule.x"}, None),
        ({"drift": {"items": 0.5}}, "expectations.series"),
        ({"series": "a b"}, "expectations.series"),
        ({"series": "workflow.a/b"}, "expectations.series"),
        ({"items": {}}, "expectations.items"),
        ({"pages": {"min": 2, "max": 1}}, "expectations.pages.min"),
        ({"fields": {"price": {}}}, "expectations.fields.price"),
        ({"fields": {"price": {"min": 2, "max": 1}}}, "expectations.fields.price.min"),
        ({"fields": {"": {"empty": 0}}}, "expectations.fields"),
        ({"fields": {"p": {"pattern": "(?=x)"}}}, "expectations.fields.p.pattern"),
        (
            {"fields": {"p": {"distinct": {"min": 0.5, "max": 0.1}}}},
            "expectations.fields.p.distinct.min",
        ),
        ({"series": "s", "drift": {"runs": 2, "least": 3}}, "expectations.drift.least"),
        ({"fields": {f"f{n}": {"empty": 0} for n in range(51)}}, "expectations.fields"),
    ],
)
def test_what_may_be_expected(expected: dict[str, Any], field: str | None) -> None:
    found = [*expectations.problems_of(expect(**expected))]
    assert [each.field for each in found] == ([] if field is None else [field])
    assert all(each.remedy for each in found)


def test_the_examples_may_be_expected() -> None:
    shop = read_yaml(str(EXAMPLES / "quality" / "shop.yaml"))
    assert [*expectations.problems_of(expect(**shop))] == []
    raw = read_yaml(str(EXAMPLES / "workflows" / "prices.yaml"))
    read, problems = document.read(msgspec.json.encode(raw))
    assert read is not None, problems
    admission = AdmissionRules(strategies=(), parameter_types={"web_crawl": CrawlParameters})
    assert validation.problems_of(read, admission) == []


@pytest.mark.parametrize(
    ("sinks", "is_seen"),
    [([], True), (["fleet:items"], True), (["a.jsonl"], False), (["a.csv", "fleet:items"], True)],
)
def test_fields_are_only_expected_of_items_that_the_master_sees(
    sinks: list[str], is_seen: bool
) -> None:
    parameters = msgspec.json.encode({"url": "u", "sinks": [{"url": url} for url in sinks]})
    found = [*expectations.unseen_problems(expect(**PLAIN), "web_crawl", parameters)]
    assert [each.field for each in found] == ([] if is_seen else ["parameters.sinks"])
    assert not [*expectations.unseen_problems(expect(items={"min": 1}), "web_crawl", parameters)]
    assert not [*expectations.unseen_problems(expect(**PLAIN), "other", parameters)]


@pytest.mark.parametrize(
    ("metrics", "pages", "errors"),
    [
        ({"pages_crawled": 90, "failed": 10}, 90, 0.1),
        ({"fetched": 3, "failed": 1, "urls": 4}, 3, 0.25),
        ({"pages_crawled": 0, "failed": 0}, 0, 0.0),
        ({"pages_crawled": 5}, 5, None),
        ({}, None, None),
    ],
)
def test_pages_and_errors_are_what_the_metrics_say(
    metrics: dict[str, float], pages: int | None, errors: float | None
) -> None:
    assert (figures.pages_in(metrics), figures.errors_in(metrics)) == (pages, errors)


def test_items_that_went_elsewhere_are_counted_all_the_same() -> None:
    found = figures.unseen(expect(**PLAIN), {"items": 7, "pages_crawled": 9})
    assert (found.items, found.pages, found.fields) == (7, 9, None)
    assert "fleet:items" in found.trouble
    nothing = figures.unseen(expect(**PLAIN), {"items": 0})
    assert (nothing.items, nothing.trouble) == (0, "")
    assert figures.holds_items("web_crawl", {"product": []})
    assert not figures.holds_items("web_crawl", {"sinks": {}})
    assert not figures.holds_items("scrapy_spider", {"items": 3})


BROKEN = Judgement(
    verdict=Verdict.DRIFTED,
    checks=(
        Check(name="items", outcome=CheckOutcome.BROKEN, words="too few", measured=1, min=9),
        Check(name="pages", outcome=CheckOutcome.MET, words="fine"),
    ),
)


def judged(on_drift: OnDrift = OnDrift.MARK, judgement: Judgement = BROKEN) -> QualityRecord:
    profile = Profile(items=1)
    return QualityRecord(
        id="meas-1", judgement=judgement, profile=profile, on_drift=on_drift, series="s"
    )


class TestRecording:
    @pytest.mark.parametrize("on_drift", [*OnDrift])
    def test_a_run_that_is_not_good_is_kept_and_told(self, on_drift: OnDrift) -> None:
        task = make_task()
        change = signed(Change(tasks=(task,)), judged(on_drift), now=5.0)
        (run,), (event,) = change.of(MeasuredRun), change.events
        assert run.decision is (Decision.HELD if on_drift is OnDrift.HOLD else Decision.NONE)
        assert (run.task_id, run.series, run.at) == (task.id, f"{task.project_id}/s", 5.0)
        assert (event.kind, event.subject, event.cause) == ("task.drifted", task.id, "too few")
        assert event.details["broken"] == [{"name": "items", "measured": 1, "min": 9}]
        assert judged(on_drift).fails is (on_drift is OnDrift.FAIL)
        assert in_result(judged(on_drift)).measured_run == run.id

    def test_a_good_run_is_kept_and_not_told(self) -> None:
        change = signed(
            Change(tasks=(make_task(),)), judged(OnDrift.HOLD, Judgement(verdict=Verdict.OK)), now=1
        )
        assert change.events == ()
        assert change.of(MeasuredRun)[0].decision is Decision.NONE

    def test_what_could_not_be_measured_is_held_but_does_not_fail(self) -> None:
        unknown = Judgement(verdict=Verdict.UNMEASURED)
        assert not judged(OnDrift.FAIL, unknown).fails
        change = signed(Change(tasks=(make_task(),)), judged(OnDrift.HOLD, unknown), now=1)
        assert change.of(MeasuredRun)[0].decision is Decision.HELD
        assert change.events[0].kind == "task.unmeasured"

    def test_somebody_decides_once(self) -> None:
        run = make_measured(verdict=Verdict.DRIFTED, decision=Decision.HELD, run_id="run-1")
        assert undecidable(run) == ""
        change = decided(run, Decision.ACCEPTED, now=9.0, by="ann", reason="it shrank")
        assert change is not None
        (after,), (event,) = change.of(MeasuredRun), change.events
        assert (after.decision, after.decided_by, after.version) == (Decision.ACCEPTED, "ann", 2)
        assert (event.kind, event.cause) == ("task.accepted", "accepted by ann: it shrank")
        assert event.details["run_id"] == "run-1"
        assert decided(after, Decision.ACCEPTED, now=10.0, by="bob") is None
        assert "accepted by ann" in undecidable(after)
        assert undecidable(make_measured())


class TestHolding:
    def test_a_step_waits_for_all_that_are_held_and_fails_by_one_that_is_rejected(self) -> None:
        good, accepted = make_measured(1), bad(2, Decision.ACCEPTED)
        held = [bad(number, Decision.HELD) for number in range(3, 8)]
        assert held_by([good, accepted]) is None
        waits = held_by([good, *held])
        assert isinstance(waits, Held)
        assert f"crawlfleet quality accept {held[0].task_id}" in waits.reason
        assert "and 2 more" in waits.reason
        failed = held_by([*held, bad(9, Decision.REJECTED)])
        assert failed == Rejected("task-0009 was rejected by ann")

    def test_each_standing_has_its_words(self) -> None:
        assert in_words(make_measured()) == "its items are as expected"
        assert "held until somebody" in in_words(bad(1, Decision.HELD))
        assert in_words(bad(1, Decision.REJECTED)).endswith("rejected by ann")
