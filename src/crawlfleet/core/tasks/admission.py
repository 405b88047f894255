"""Admission of tasks: checks a request and reports every problem at once, each with its field and
remedy.

Types are checked when the request is decoded; here are ranges, names and contradictions. Nothing is
guessed or silently corrected: a request is accepted unchanged, or refused whole.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final

import msgspec

from crawlfleet.core.isolation import with_demand
from crawlfleet.core.quality import expectations as quality
from crawlfleet.core.resources import parse_resources
from crawlfleet.core.retries import targets
from crawlfleet.core.tasks import credentials, split
from crawlfleet.core.tasks.attempts import dedup_scope
from crawlfleet.core.text.decode_errors import LONGEST_NAME, field_problem
from crawlfleet.core.text.names import NAME
from crawlfleet.errors import FieldProblem
from crawlfleet.model.bundle import BundleRef
from crawlfleet.model.change import NEVER, Change, Claim
from crawlfleet.model.event import Event
from crawlfleet.model.isolation import Level
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.resources import RESOURCE_NAMES
from crawlfleet.model.task import MAX_PRIORITY, MIN_PRIORITY, Callback, RetryPolicy, StepRef, Task

TASK_TYPE: Final = re.compile(r"[a-z][a-z0-9_]{0,49}\Z")
MAX_KEY_LENGTH: Final = 200
MAX_PARAMETERS_BYTES: Final = 1_000_000
MAX_CATEGORIES: Final = 16
MAX_ENTRIES: Final = 64
MAX_RETRIES: Final = 100
MAX_SECONDS: Final = 366 * 86_400.0
MAX_AMOUNT: Final = 1e9
MAX_LEVEL: Final = 1e15
MAX_NESTING: Final = 100
"""Limit of nesting of parameters, which are wrapped and decoded in several places with limits of
their own."""
MAX_PROBLEMS: Final = 20
"""Limit of problems in an answer; more would not be read at once."""

_WAITS: Final = (
    ("initial_delay_s", 0, MAX_SECONDS),
    ("factor", 1, 100),
    ("max_delay_s", 0, MAX_SECONDS),
)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_BRACKET: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')

Digest = Callable[[bytes], str]


class AdmissionRules(msgspec.Struct, frozen=True, kw_only=True):
    """Names that this fleet knows: strategies, and the parameters of the built-in task types."""

    strategies: Collection[str]
    parameter_types: Mapping[str, type[msgspec.Struct]] = {}
    parameter_checks: Mapping[str, Callable[[Any], Iterable[FieldProblem]]] = {}
    """Checks of parameters that have the right type, by task type. Problems name their field
    without the leading `parameters.`."""
    divisions: Mapping[str, split.Divide] = split.RULES
    """Functions that split a task into shards, by task type."""
    registrable: targets.Registrable = targets.last_two_labels
    """Function that returns the registered domain of a host name."""


def problems_of(request: TaskRequest, rules: AdmissionRules) -> list[FieldProblem]:
    """Return the problems of a request; an empty list means that it may become a task."""
    found = chain(
        _names(request),
        _numbers(request),
        _retry_policy(request.retry_policy),
        resource_problems("min_resources", request.min_resources),
        feature_problems("capabilities", request.capabilities),
        feature_problems("content_features", request.content_features),
        _categories(request.categories),
        _strategy(request.schedule_strategy, rules.strategies),
        _isolation(request.isolation),
        _parameters(request, rules),
        _expectations(request),
    )
    return list(islice(found, MAX_PROBLEMS))


def admit(
    request: TaskRequest,
    *,
    id: str,
    now: float,
    cause: str,
    digest: Digest,
    bundle: BundleRef | None = None,
    step: StepRef | None = None,
    callback: Callback | None = None,
    registrable: targets.Registrable = targets.last_two_labels,
) -> Change:
    """Return the change that creates the task of a valid request, and claims its keys."""
    task = Task(
        id=id,
        project_id=request.project_id,
        cluster_id=request.cluster_id,
        workflow_id=request.workflow_id,
        task_type=request.task_type,
        parameters=request.parameters,
        priority=request.priority,
        min_resources=request.min_resources,
        capabilities=with_demand(request.capabilities, request.isolation),
        content_features=request.content_features,
        categories=request.categories,
        node_type=request.node_type,
        schedule_strategy=request.schedule_strategy,
        target_region=request.target_region,
        max_retries=request.max_retries,
        retry_policy=request.retry_policy,
        timeout_s=request.timeout,
        deadline=None if request.deadline is None else now + request.deadline,
        idempotency_key=request.idempotency_key,
        dedup_key=request.dedup_key,
        dedup_window_s=request.dedup_window,
        bundle=bundle,
        secrets=secrets_of(request),
        step=step,
        expectations=request.expectations,
        callback=callback,
        target=_target(request, registrable),
        created_at=now,
        updated_at=now,
    )
    claims = []
    if request.idempotency_key is not None:
        claims.append(
            Claim(
                scope=idempotency_scope(request.project_id),
                key=request.idempotency_key,
                holder=id,
                at=now,
                expires_at=NEVER,
                digest=digest(canonical_bytes(request)),
            )
        )
    if request.dedup_key is not None:
        claims.append(
            Claim(
                scope=dedup_scope(request.project_id),
                key=request.dedup_key,
                holder=id,
                at=now,
                expires_at=NEVER,
            )
        )
    event = Event(
        kind=f"task.{task.status}",
        subject=id,
        at=now,
        cause=cause,
        to_state=str(task.status),
        details={} if callback is None else {"callback": callback.webhook_id},
        project_id=task.project_id,
    )
    return Change(tasks=(task,), claims=tuple(claims), events=(event,), usual=True)


def secrets_of(request: TaskRequest) -> tuple[str, ...]:
    """Return the secrets of a task: those that it declares, and those that its parameters refer to,
    each once."""
    referred = credentials.names_in(request.task_type, bytes(request.parameters))
    return tuple(dict.fromkeys((*request.secrets, *referred)))


def _target(request: TaskRequest, registrable: targets.Registrable) -> str | None:
    if not request.breaker:
        return None
    return request.target or targets.target_of(request.parameters, registrable)


def idempotency_scope(project_id: str) -> str:
    """Return the scope in which the idempotency keys of a project are claimed."""
    return f"idempotency:{project_id}"


def canonical_bytes(request: TaskRequest) -> bytes:
    """Return bytes that are equal for equal requests, however their JSON was written."""
    plain = msgspec.structs.asdict(request)
    plain["parameters"] = msgspec.json.decode(request.parameters)
    if request.isolation is None:
        del plain["isolation"]  # keys that were claimed before there was such a field stay good
    if request.deadline is None:
        del plain["deadline"]
    if request.bundle is None:
        # As it was before there were bundles: what was submitted then may be sent again now.
        del plain["bundle"]
    if not request.secrets:
        del plain["secrets"]  # likewise
    if request.expectations is None:
        del plain["expectations"]
    if request.callback_url is None:
        del plain["callback_url"]
    if request.target is None:
        del plain["target"]
    if request.breaker:
        del plain["breaker"]
    return msgspec.json.encode(plain, order="sorted")


def _problem(field: str, value: Any, message: str, remedy: str) -> FieldProblem:
    return FieldProblem(field=field, value=value, message=message, remedy=remedy)


def _names(request: TaskRequest) -> Iterator[FieldProblem]:
    if not TASK_TYPE.match(request.task_type):
        yield _problem(
            "task_type",
            request.task_type,
            "is not the name of a task type",
            "use lower-case letters, digits and underscores, at most 50, such as http_fetch",
        )
    for field in ("project_id", "cluster_id", "workflow_id", "node_type", "target_region"):
        value = getattr(request, field)
        if value is not None and not NAME.match(value):
            yield _problem(
                field,
                value,
                "is not a valid name",
                "use letters, digits, dot, dash and underscore, at most 64, "
                "beginning with a letter or digit",
            )
    if request.target is not None and not targets.TARGET.match(request.target):
        yield _problem(
            "target",
            request.target[:LONGEST_NAME],
            "is not the name of a target",
            "use a host name in lower case, such as shop.example, or leave it out",
        )
    for field in ("idempotency_key", "dedup_key"):
        value = getattr(request, field)
        if value is not None and not 1 <= len(value) <= MAX_KEY_LENGTH:
            yield _problem(
                field,
                value,
                f"has {len(value)} characters",
                f"use 1 to {MAX_KEY_LENGTH} characters, or leave it out",
            )
        elif value is not None and _CONTROL.search(value):
            yield _problem(
                field, value, "has control characters", "use characters that can be printed"
            )


def _numbers(request: TaskRequest) -> Iterator[FieldProblem]:
    yield from _within("priority", request.priority, MIN_PRIORITY, MAX_PRIORITY)
    yield from _within("max_retries", request.max_retries, 0, MAX_RETRIES)
    yield from _within("dedup_window", request.dedup_window, 0, MAX_SECONDS)
    if request.timeout is not None:
        yield from _within("timeout", request.timeout, 0.001, MAX_SECONDS)
    if request.deadline is not None:
        yield from _within("deadline", request.deadline, 0.001, MAX_SECONDS)


def _retry_policy(policy: RetryPolicy) -> Iterator[FieldProblem]:
    yield from _within("retry_policy.initial_delay_s", policy.initial_delay_s, 0, MAX_SECONDS)
    yield from _within("retry_policy.factor", policy.factor, 1, 100)
    yield from _within("retry_policy.max_delay_s", policy.max_delay_s, 0, MAX_SECONDS)
    yield from _within("retry_policy.jitter", policy.jitter, 0, 1)
    if policy.max_total_s is not None:
        yield from _within("retry_policy.max_total_s", policy.max_total_s, 0, MAX_SECONDS)
    for kind, own in policy.classes.items():
        field = f"retry_policy.classes.{kind}"
        for name, least, most in _WAITS:
            if (value := getattr(own, name)) is not None:
                yield from _within(f"{field}.{name}", value, least, most)


def _within(field: str, value: float, low: float, high: float) -> Iterator[FieldProblem]:
    if not low <= value <= high:
        remedy = f"use a number from {low:.15g} to {high:.15g}"
        yield _problem(field, value, "is out of range", remedy)


def resource_problems(field: str, amounts: Mapping[str, float]) -> Iterator[FieldProblem]:
    """Yield the problems of requested or offered amounts of resources."""
    if not amounts:
        return
    for name in parse_resources(amounts)[1]:
        yield _problem(
            f"{field}.{name[:LONGEST_NAME]}",
            amounts[name],
            "is not a resource that nodes have",
            f"use one of {', '.join(RESOURCE_NAMES)}",
        )
    for name, amount in amounts.items():
        yield from _within(f"{field}.{name[:LONGEST_NAME]}", amount, 0, MAX_AMOUNT)


def feature_problems(field: str, features: Mapping[str, Any]) -> Iterator[FieldProblem]:
    """Yield the problems of requested or offered capabilities or features."""
    if len(features) > MAX_ENTRIES:
        yield _problem(field, len(features), "has too many entries", f"use at most {MAX_ENTRIES}")
    for name, value in features.items():
        if not NAME.match(name):
            yield _problem(
                f"{field}.{name[:LONGEST_NAME]}",
                value,
                "is not a valid name",
                "use letters, digits, dot, dash and underscore, at most 64",
            )
        if not _is_feature(value):
            yield _problem(
                f"{field}.{name[:LONGEST_NAME]}",
                value,
                "is neither true/false, a number, a text nor a list of texts, or is too large",
                f"use a number up to {MAX_LEVEL:g} for a level, true for a flag, or texts of at "
                f"most {MAX_KEY_LENGTH} characters, one or a list of up to {MAX_ENTRIES}",
            )


def _is_feature(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) <= MAX_ENTRIES and all(
            isinstance(each, str) and len(each) <= MAX_KEY_LENGTH for each in value
        )
    if isinstance(value, str):
        return len(value) <= MAX_KEY_LENGTH
    return isinstance(value, bool | int | float) and -MAX_LEVEL <= value <= MAX_LEVEL


def _categories(categories: tuple[str, ...]) -> Iterator[FieldProblem]:
    if len(categories) > MAX_CATEGORIES:
        yield _problem(
            "categories", len(categories), "has too many entries", f"use at most {MAX_CATEGORIES}"
        )
    for index, category in enumerate(categories):
        if not NAME.match(category):
            yield _problem(
                f"categories[{index}]",
                category,
                "is not a valid name",
                "use letters, digits, dot, dash and underscore, at most 64",
            )


def _strategy(name: str | None, known: Collection[str]) -> Iterator[FieldProblem]:
    if name is not None and name not in known:
        yield _problem(
            "schedule_strategy",
            name,
            "is not a strategy of this fleet",
            f"use one of {', '.join(sorted(known))}, or leave it out",
        )


def _isolation(level: Level | None) -> Iterator[FieldProblem]:
    if level is Level.L0:
        yield _problem(
            "isolation",
            str(level),
            "demands nothing: every node meets it, with a cell or without",
            "demand L1 or more, or leave it out",
        )


def _parameters(request: TaskRequest, rules: AdmissionRules) -> Iterator[FieldProblem]:
    raw = bytes(request.parameters)
    if len(raw) > MAX_PARAMETERS_BYTES:
        yield _problem(
            "parameters",
            len(raw),
            f"has {len(raw)} bytes",
            f"use at most {MAX_PARAMETERS_BYTES} bytes; put large data where the task can fetch it",
        )
        return
    if not raw.lstrip().startswith(b"{"):
        yield _problem(
            "parameters", None, "is not an object", 'use an object such as {"seconds": 1}'
        )
        return
    if nesting_of(raw) > MAX_NESTING:
        yield _problem(
            "parameters", None, "is nested too deeply", f"use at most {MAX_NESTING} levels"
        )
        return
    kind = rules.parameter_types.get(request.task_type, dict)
    try:
        parameters = msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        yield field_problem(error, kind, within="parameters", raw=raw)
        return
    check = rules.parameter_checks.get(request.task_type)
    found = check(parameters) if check is not None and kind is not dict else ()
    for problem in chain(_credentials(request.task_type, raw), found):
        yield msgspec.structs.replace(problem, field=f"parameters.{problem.field}")


def _credentials(task_type: str, raw: bytes) -> Iterable[FieldProblem]:
    if task_type not in credentials.TYPES:
        return ()
    return credentials.problems_of(task_type, msgspec.json.decode(raw), refers=b"secret:" in raw)


def _expectations(request: TaskRequest) -> Iterator[FieldProblem]:
    expected = request.expectations
    if expected is not None:
        yield from quality.problems_of(expected)
        yield from quality.unseen_problems(expected, request.task_type, bytes(request.parameters))


def nesting_of(raw: bytes) -> int:
    """Return the depth of nesting of valid JSON; for a text with few brackets, an upper bound of
    it."""
    if (most := raw.count(b"{") + raw.count(b"[")) <= MAX_NESTING:
        return most
    deepest = depth = 0
    for token in _BRACKET.finditer(raw):
        first = token.group()[:1]
        if first in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif first in b"]}":
            depth -= 1
    return deepest
