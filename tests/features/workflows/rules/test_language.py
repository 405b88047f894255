"""The language of conditions and values: what it means, what it refuses, what it may cost."""

import os
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.features.workflows.model import Kind
from crawlfleet.features.workflows.rules.language.evaluation import (
    MAX_WORK,
    ExpressionScope,
    StepValue,
    TooMuchWork,
    evaluate,
)
from crawlfleet.features.workflows.rules.language.syntax import (
    MAX_EXPRESSION_CHARS,
    BadExpression,
    parse,
)
from crawlfleet.features.workflows.rules.language.template import (
    BYTES_FOR_ONE,
    Room,
    compiled,
    whole,
)
from crawlfleet.features.workflows.rules.language.types import TypeContext, kind_at

EXAMPLES = 3_000 if os.environ.get("CRAWLFLEET_SOAK") else 80
FETCHED = StepValue(
    status="completed",
    result={"links": ["a", "b"], "count": 2, "page": {"title": "Shop"}, "nothing": None},
    metrics={"pages_crawled": 3.0},
)
SPREAD = StepValue(
    status="failed", count=3, results=[{"url": "x", "n": 1}, None, {"n": 2}], error="1 of 3 failed"
)


def scope() -> ExpressionScope:
    return ExpressionScope(
        steps={"fetch": FETCHED, "parse": SPREAD},
        roots={"parameters": {"pages": 3, "name": "shop"}, "run": {"id": "run-1"}, "item": [1, 2]},
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 % 4 - -1", 4),
        ("10 / 4", 2.5),
        ("1 < 2 and not 2 < 1", True),
        ("true or steps.fetch.result.missing == 1", True),
        ("'b' in steps.fetch.result.links", True),
        ("'c' not in steps.fetch.result.links", True),
        ("'ho' in 'shop'", True),
        ("'title' in steps.fetch.result.page", True),
        ("steps.fetch.result.page.title + '!'", "Shop!"),
        ("steps['fetch'].result['page']['title']", "Shop"),
        ("steps.fetch.result.links[-1]", "b"),
        ("steps.fetch.status == 'completed'", True),
        ("steps.parse.results[*].n", [1, 2]),
        ("steps.parse.results[*].url", ["x"]),
        ("sum(steps.parse.results[*].n) == 3", True),
        ("len(steps.parse.results)", 3),
        ("steps.parse.error", "1 of 3 failed"),
        ("steps.fetch.metrics.pages_crawled >= 3", True),
        ("default(steps.fetch.result.missing, 'none')", "none"),
        ("default(steps.fetch.result.nothing, 1)", 1),
        ("default(steps.fetch.result.count, 9)", 2),
        ("parameters.pages * 2", 6),
        ("run.id", "run-1"),
        ("item[0] + item[1]", 3),
        ("[1, 'a', null, true]", [1, "a", None, True]),
        ("true == 1", False),
        ("1 == 1.0", True),
        ("[1, [2]] == [1, [2]]", True),
        ("null == steps.fetch.result.nothing", True),
        ("chunk([1, 2, 3], 2)", [[1, 2], [3]]),
        ("unique([1, true, 1, 'a', 'a'])", [1, True, "a"]),
        ("flatten([[1], 2, [3, [4]]])", [1, 2, 3, [4]]),
        ("join(['a', 'b'], ', ')", "a, b"),
        ("max([3, 1]) - min([3, 1])", 2),
        ("any([false, true]) and all([true])", True),
        ("number('3') + number('0.5')", 3.5),
        ("text([1, 'a'])", '[1,"a"]'),
        ("keys(steps.fetch.result.page)", ["title"]),
        ("starts_with(lower('HTTP://x'), 'http:')", True),
        (r"'it\'s' + " + '"\\n"', "it's\n"),
        ("[[1, 2], [3]][*][0]", [1, 3]),
    ],
)
def test_an_expression_means(text: str, value: Any) -> None:
    found = evaluate(parse(text), scope())
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "ends where a value should be"),
        ("1 +", "ends where a value should be"),
        ("1 2", "has '2' where the expression should end"),
        ("(1", "ends where ')' should be"),
        ("[1 2]", "has '2' where ',' should be"),
        ("a", "knows no 'a'"),
        ("'a", "has a text without its end"),
        ("1 = 1", "compares by a single '='"),
        ("1 == 1 && true", "has '&&'"),
        ("steps", "names no step"),
        ("steps[0]", "names no step"),
        ("steps.fetch.1", "has '1' where the name"),
        ("`x`", "has '`', which means nothing here"),
        ("9" * 30, "has a number of 30 digits"),
        ("(" * 60 + "1" + ")" * 60, "is nested too deeply"),
        ("1" + " + 1" * 300, "has too long a chain"),
        ("1" * (MAX_EXPRESSION_CHARS + 1), "is an expression of"),
        ("__import__('os')", "knows no function '__import__'"),
        ("len.__class__", "knows no 'len'"),
        ("len('a', 'b')", "gives 2 values to len()"),
        ("lenn('a')", "knows no function 'lenn'"),
        ("1 + 'a'", "has a number and a text around `+`"),
        ("1 < 'a'", "has a number and a text around `<`"),
        ("not 1", "gives to `not` a number"),
        ("1 and true", "gives to `and` a number"),
        ("steps.fetch.status > 3", "has a text and a number around `>`"),
        ("steps.fetch.status == 'done'", "compares a status with 'done'"),
        ("steps.fetch.output", "asks for steps.fetch.output"),
        ("steps.fetch", "speaks of steps.fetch as a whole"),
        ("steps.fetch.results", "which has no for_each"),
        ("steps.parse.result", "which has for_each"),
        ("parameters.colour", "knows no parameter 'colour'"),
        ("sum(parameters.name)", "gives to sum() a text"),
        ("parameters.name.x", "asks for the field 'x' of a text"),
    ],
)
def test_what_is_wrong_in_any_run_is_found_before_it(text: str, complaint: str) -> None:
    around = TypeContext(
        spread={"fetch": False, "parse": True},
        parameters={"pages": Kind.INTEGER, "name": Kind.TEXT},
        is_instance=False,
    )
    with pytest.raises(BadExpression) as caught:
        kind_at(parse(text), around)
    assert complaint in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("steps.fetch.result.linkz", "finds no field 'linkz'"),
        ("steps.fetch.result.links.first", "asks a list for the field 'first'"),
        ("steps.fetch.result.links[2]", "asks for the element 2 of 2"),
        ("steps.fetch.result.count + 'a'", "gives a text to `+`"),
        ("steps.fetch.result.count / 0", "divides by zero"),
        ("steps.fetch.result[*]", "goes through an object by [*]"),
        ("steps.fetch.result.links and true", "gives a list to `and`"),
        ("min(steps.fetch.result.links)", "has a text in what min() is taken of"),
        ("max([])", "takes max() of an empty list"),
        ("9007199254740992 * 3", "comes to a number that is too large"),
        ("number('ten')", "takes 'ten' for a number"),
    ],
)
def test_what_is_wrong_with_the_values_is_said(text: str, complaint: str) -> None:
    with pytest.raises(BadExpression) as caught:
        evaluate(parse(text), scope())
    assert caught.value.message.startswith(complaint)


@pytest.mark.parametrize(
    "text",
    [
        "item.long + 1",
        "item.long / 3",
        "-item.long",
        "sum([item.long, 0.5])",
        "range(-item.long)",
        "chunk([1], item.long)",
        "[1][item.long]",
        f"number('{'9' * 1_900}')",
        "number('nan')",
    ],
)
def test_numbers_without_end_are_refused_like_any_other_value(text: str) -> None:
    values = ExpressionScope(roots={"item": {"long": int("9" * 400)}})
    with pytest.raises(BadExpression, match="number that is too large"):
        evaluate(parse(text), values)


def test_values_nested_as_deep_as_json_may_be_are_compared() -> None:
    one, other = (msgspec.json.decode(b"[" * 400 + b"]" * 400) for _ in range(2))
    values = ExpressionScope(roots={"item": {"one": one, "other": other}})
    assert evaluate(parse("item.one == item.other"), values) is True
    assert evaluate(parse("item.one == [item.other]"), values) is False
    assert evaluate(parse("item == item"), values) is True


def test_only_a_few_fields_of_a_large_object_are_named() -> None:
    values = ExpressionScope(roots={"item": {f"{at}" * 100: at for at in range(9)}})
    with pytest.raises(BadExpression, match="finds no field 'x'") as caught:
        evaluate(parse("item.x"), values)
    assert len(caught.value.remedy) < 600


NUMBERS = st.integers(-50, 50)


@st.composite
def arithmetic(draw: st.DrawFn, depth: int = 4) -> str:
    """An expression that means the same here and in Python."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return str(draw(NUMBERS))
    sign = draw(st.sampled_from(["+", "-", "*", "%", "/"]))
    left, right = draw(arithmetic(depth - 1)), draw(arithmetic(depth - 1))
    return draw(st.sampled_from([f"({left} {sign} {right})", f"{left} {sign} {right}", f"-{left}"]))


@st.composite
def logic(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        sign = draw(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]))
        return f"{draw(arithmetic(2))} {sign} {draw(arithmetic(2))}"
    left, right = draw(logic(depth - 1)), draw(logic(depth - 1))
    word = draw(st.sampled_from(["and", "or"]))
    return draw(
        st.sampled_from(
            [f"({left}) {word} ({right})", f"{left} {word} {right}", f"not ({left})", f"not {left}"]
        )
    )


@settings(deadline=None, max_examples=EXAMPLES)
@given(st.one_of(arithmetic(), logic()))
def test_arithmetic_and_logic_agree_with_python(text: str) -> None:
    try:
        expected = eval(text, {"__builtins__": {}})  # made above of numbers and signs alone
    except ZeroDivisionError:
        expected = None
    found, complaint = tried(text, ExpressionScope())
    if complaint is not None:
        assert expected is None or "too large" in complaint.message, text
    else:
        assert found == expected, text


def tried(text: str, values: ExpressionScope) -> tuple[Any, BadExpression | None]:
    """What an expression comes to, or what is said against it."""
    try:
        return evaluate(parse(text), values), None
    except BadExpression as problem:
        return None, problem


@pytest.mark.parametrize("text", ["a()", "default()", "default(1)", "len()", "chunk([1])"])
def test_calls_that_fit_no_function_are_refused_where_they_are_computed_too(text: str) -> None:
    _, complaint = tried(text, scope())
    assert complaint is not None
    assert complaint.remedy


@settings(deadline=None, max_examples=EXAMPLES)
@given(st.text(alphabet="steps.fch[]()*+-'\"=<>andornti 019,{}$", max_size=60))
def test_no_text_breaks_anything(text: str) -> None:
    _, complaint = tried(text, scope())
    assert complaint is None or (complaint.message and complaint.remedy)


def test_the_cost_of_an_expression_is_bounded() -> None:
    many = "[range(2000), range(2000), range(2000)]"
    text = f"len(flatten({many}[*][*])) " + f"+ len(flatten({many}[*][*])) " * 30
    limited = scope()
    begun = time.process_time()
    with pytest.raises(BadExpression, match="too much work"):
        evaluate(parse(f"{text} + sum(range({MAX_WORK}))"), limited)
    assert limited.left < 0
    assert time.process_time() - begun < 30.0


LONG = "x" * 160_000


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("item.one == item.other", 10_000),
        ("item.one < item.other", 10_000),
        ("starts_with(item.one, item.other)", 10_000),
        ("item.one in [item.other]", 10_000),
        ("unique([item.one, item.other])", 20_000),
        ("item.many == item.same", 5_000),
    ],
)
def test_long_values_are_charged_by_their_size(text: str, least: int) -> None:
    many = {"many": [0] * 5_000, "same": [0] * 5_000}
    values = ExpressionScope(roots={"item": {"one": LONG, "other": f"{LONG[1:]}x", **many}})
    evaluate(parse(text), values)
    assert MAX_WORK - values.left >= least


@pytest.mark.parametrize("text", ["${item}", "and ${item}"])
def test_what_is_filled_in_stops_where_there_is_no_more_room(text: str) -> None:
    values = ExpressionScope(roots={"item": LONG})
    room = Room(1_000_000)
    with pytest.raises(BadExpression, match="come to more than 1000000 bytes"):
        compiled([text] * 50, "parameters").fill(values, room)
    assert room.used < 1_000_000 + 2 * len(LONG)
    assert MAX_WORK - values.left >= 1_000_000 // BYTES_FOR_ONE


def test_texts_are_counted_one_after_the_other() -> None:
    values = ExpressionScope(roots={"item": LONG})
    with pytest.raises(TooMuchWork):
        compiled("${item}" * 400, "parameters").fill(values)
    assert values.left > -len(LONG) // 16 - 1


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        ("${steps.fetch.result.links}", ["a", "b"]),
        ("page ${steps.fetch.result.count} of ${parameters.pages}", "page 2 of 3"),
        ("costs $5, {braces} and $${escaped}", "costs $5, {braces} and ${escaped}"),
        ("${'}' + \"${\"}", "}${"),
        ({"a": ["${run.id}", {"b": "${item}"}], "c": 1}, {"a": ["run-1", {"b": [1, 2]}], "c": 1}),
        ("list: ${steps.fetch.result.links}", 'list: ["a","b"]'),
    ],
)
def test_a_template_is_filled(value: Any, filled: Any) -> None:
    assert compiled(value, "parameters").fill(scope()) == filled


def test_a_template_that_is_not_closed_names_its_path() -> None:
    with pytest.raises(BadExpression, match="without its }") as caught:
        compiled({"headers": ["x", "${run.id"]}, "parameters")
    assert getattr(caught.value, "path", "") == "parameters.headers[1]"


def test_conditions_may_stand_with_or_without_braces() -> None:
    assert evaluate(whole("${1 < 2}"), ExpressionScope()) is True
    assert evaluate(whole(" 1 < 2 "), ExpressionScope()) is True


SECRET = "${secret:SHOP_TOKEN}"


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        (SECRET, SECRET),
        (f"Bearer {SECRET}", f"Bearer {SECRET}"),
        (f"$${{secret:SHOP_TOKEN}} {SECRET}", f"{SECRET} {SECRET}"),
        ("a ${parameters.name} " + SECRET, "a x " + SECRET),
    ],
)
def test_a_reference_to_a_secret_stays_as_it_stands_in_the_document(
    value: str, filled: str
) -> None:
    scope = ExpressionScope(roots={"parameters": {"name": "x"}})
    assert compiled({"h": value}, "parameters").fill(scope) == {"h": filled}


@pytest.mark.parametrize(
    "value",
    [
        "${parameters.whole}",
        "Bearer ${parameters.whole}",
        "${parameters.nested}",
        "${parameters.begin}${parameters.end}",
        "$${secret:${parameters.name}}",
        SECRET + " ${parameters.whole}",
        "${parameters.dollar}{secret:SHOP_TOKEN}",
    ],
)
def test_no_value_brings_a_reference_to_a_secret_along(value: str) -> None:
    """Results are what strangers' sites sent, and must not choose what is sent to them."""
    values = {
        "whole": SECRET,
        "nested": {"list": [{"deep": SECRET}]},
        "begin": "${sec",
        "end": "ret:SHOP_TOKEN}",
        "name": "SHOP_TOKEN",
        "dollar": "$",
    }
    scope = ExpressionScope(roots={"parameters": values})
    with pytest.raises(BadExpression, match="has to stand in the document"):
        compiled({"h": value}, "parameters").fill(scope)
