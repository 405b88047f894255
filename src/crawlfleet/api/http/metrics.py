"""/metrics: the master's measurements for Prometheus.

Names are stable, since people alert on them; docs/reference/metrics.md lists them. Labels name
states, classes and routes, never ids: their number does not grow with the work.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from crawlfleet import __version__
from crawlfleet.api.http.measurements import RequestMeasurements
from crawlfleet.api.http.routing import READERS, Call, Reply, Route, Scope
from crawlfleet.control.events.stream import Events
from crawlfleet.control.services import Services
from crawlfleet.control.state.counters import Distribution, Happening
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.tasks.queries import TaskQueries
from crawlfleet.control.this_master import ThisMaster
from crawlfleet.control.usage import UsageMeter
from crawlfleet.features.schedules.model import Outcome, ScheduleStatus
from crawlfleet.features.schedules.service import Schedules
from crawlfleet.model.breaker import BreakerState
from crawlfleet.model.node import Health, NodeStatus
from crawlfleet.model.quality import Verdict
from crawlfleet.model.task import TERMINAL, ErrorClass, TaskStatus
from crawlfleet.views.status import Totals

TEXT: Final = "text/plain"
REASONS: Final = (
    "address",
    "no_key",
    "unknown_key",
    "expired_key",
    "revoked_key",
    "rotated_key",
    "revoked_token",
    "used_up",
    "ended_session",
    "forged",
    "locked_out",
    "role",
    "other_node",
    "scope",
)
"""Reasons for refusing a key."""
_process: Final = ProcessCollector(registry=None)


async def metrics(call: Call) -> Reply:
    totals = await call.service(TaskQueries).totals()
    measured = [*_http(call.requests), _refusals(call.requests)]
    shown = _Shown([*_fleet(call.services, totals), *_work(call.services), *measured])
    return Reply(body=generate_latest(shown), media_type=CONTENT_TYPE_PLAIN_0_0_4)


class _Shown(Collector):
    """The collector of one answer: its metrics and those of the process itself."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = [*metrics]

    def collect(self) -> Iterable[Metric]:
        return [*self._metrics, *_process.collect()]


def _fleet(services: Services, totals: Totals) -> Iterator[Metric]:
    """Yield the metrics of the present state."""
    state = services.get(FleetState)
    build = GaugeMetricFamily("crawlfleet_build_info", "Always 1.", labels=["version"])
    build.add_metric([__version__], 1)
    yield build
    tasks = {str(status): totals.tasks.get(status, 0) for status in TaskStatus}
    yield _gauges("crawlfleet_tasks", "Tasks in the store.", "state", tasks)
    yield _gauge("crawlfleet_tasks_ready", "Tasks that wait for a node.", totals.ready)
    yield _gauge("crawlfleet_tasks_delayed", "Tasks that wait for their time.", totals.delayed)
    oldest = services.get(TaskQueries).oldest_ready_s()
    yield _gauge(
        "crawlfleet_oldest_ready_seconds",
        "Age of the task that has been ready longest; 0 when none is.",
        oldest or 0.0,
    )
    yield _gauge(
        "crawlfleet_executions_running",
        "Executions that hold resources of a node.",
        totals.running,
    )
    nodes = {str(status): totals.nodes.get(status, 0) for status in NodeStatus}
    yield _gauges("crawlfleet_nodes", "Nodes that are known.", "status", nodes)
    health = Counter(str(node.health) for node in state.nodes.values())
    yield _gauges(
        "crawlfleet_nodes_health",
        "Nodes by their health.",
        "health",
        {str(each): health[each] for each in Health},
    )
    schedules = Counter(str(each.status) for each in services.get(Schedules).all())
    yield _gauges(
        "crawlfleet_schedules",
        "Schedules that are known.",
        "status",
        {str(each): schedules[each] for each in ScheduleStatus},
    )
    breaking = Counter(str(each.state) for each in state.gate.breakers.open.values())
    yield _gauges(
        "crawlfleet_breakers",
        "Sites that are taken for down.",
        "state",
        {str(each): breaking[each] for each in (BreakerState.OPEN, BreakerState.PROBING)},
    )
    yield _gauges(
        "crawlfleet_tasks_held",
        "Tasks whose time has come and that wait all the same.",
        "reason",
        state.gate.counts(),
    )
    yield _gauge("crawlfleet_sessions", "Sessions of nodes that are open.", len(state.sessions))
    yield _gauge("crawlfleet_events_last_seq", "Newest event known.", services.get(Events).position)
    yield _gauge(
        "crawlfleet_leader", "1 if this master leads.", float(services.get(ThisMaster).leads)
    )
    yield _gauge(
        "crawlfleet_event_streams",
        "Readers that follow the events.",
        services.get(Events).followers,
    )
    yield _gauge(
        "crawlfleet_store_doubt",
        "1 while the outcome of a commit is unknown and the store is read anew.",
        state.signals.doubt.is_set(),
    )
    yield _gauge(
        "crawlfleet_storage_unmeasured",
        "1 while the leader cannot tell how much is kept; quotas go by what was measured before.",
        services.get(UsageMeter).is_unmeasured,
    )


def _work(services: Services) -> Iterator[Metric]:
    """Yield the counters since the start of the master."""
    tally = services.get(FleetState).counters
    yield _counter(
        "crawlfleet_tasks_submitted",
        "Tasks that were accepted.",
        tally.totals[Happening.SUBMITTED],
    )
    yield _counter(
        "crawlfleet_assignments",
        "Executions that were given to a node.",
        tally.totals[Happening.ASSIGNED],
    )
    ended = {str(status): tally.totals[Happening(str(status))] for status in sorted(TERMINAL)}
    yield _counters("crawlfleet_tasks_ended", "Tasks that ended.", "state", ended)
    failures = {str(kind): tally.failures[kind] for kind in ErrorClass}
    yield _counters(
        "crawlfleet_execution_failures",
        "Executions that did not succeed, tried again or not.",
        "error_class",
        failures,
    )
    firings = {str(outcome): services.get(Schedules).firings[outcome] for outcome in Outcome}
    yield _counters(
        "crawlfleet_schedule_firings",
        "What became of due instants of schedules.",
        "outcome",
        firings,
    )
    yield _counters(
        "crawlfleet_measured_runs",
        "Tasks with expectations that ended, by what was measured of their items.",
        "verdict",
        {str(verdict): tally.verdicts[verdict] for verdict in Verdict},
    )
    yield _histogram(
        "crawlfleet_dispatch_duration_seconds",
        "Rounds of planning and assigning.",
        {(): tally.dispatch_s},
    )
    yield _histogram(
        "crawlfleet_commit_duration_seconds", "Commits to the store.", {(): tally.commit_s}
    )
    yield _histogram(
        "crawlfleet_commit_changes", "Changes in a commit.", {(): tally.commit_changes}
    )


def _http(requests: RequestMeasurements) -> Iterator[Metric]:
    answers = CounterMetricFamily(
        "crawlfleet_http_requests",
        "Requests that were answered.",
        labels=["method", "route", "status"],
    )
    for (method, route, status), count in sorted(requests.answers.items()):
        answers.add_metric([method, route, str(status)], count)
    yield answers
    yield _histogram(
        "crawlfleet_http_request_duration_seconds",
        "Time to the answer, or to the begin of a stream; long polls wait on purpose.",
        requests.durations_s,
        labels=["method", "route"],
    )


def _refusals(requests: RequestMeasurements) -> Metric:
    refused = {reason: requests.refusals[reason] for reason in REASONS}
    return _counters("crawlfleet_http_refused", "Requests that were not let in.", "reason", refused)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _gauges(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    return _labelled(GaugeMetricFamily(name, text, labels=[label]), values)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _counters(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    return _labelled(CounterMetricFamily(name, text, labels=[label]), values)


def _labelled(family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[str, int]) -> Metric:
    for value, count in values.items():
        family.add_metric([value], count)
    return family


def _histogram(
    name: str,
    text: str,
    distributions: Mapping[tuple[str, ...], Distribution],
    labels: Iterable[str] = (),
) -> Metric:
    family = HistogramMetricFamily(name, text, labels=[*labels])
    for values, distribution in sorted(distributions.items()):
        bounds = [f"{bound:g}" for bound in distribution.bounds] + ["+Inf"]
        buckets = [*zip(bounds, accumulate(distribution.counts), strict=True)]
        family.add_metric(values, buckets, distribution.sum)
    return family


ROUTES: Final = (
    Route(
        name="get_metrics",
        method="GET",
        path="/metrics",
        roles=READERS,
        scope=Scope.FLEET,
        handler=metrics,
        client="metrics()",
        no_command="for Prometheus; `statistics` is for people",
        summary="Measurements for Prometheus",
        details="In its text format; [metrics](metrics.md) lists them.",
        response=str,
        media_types=(TEXT,),
    ),
)
