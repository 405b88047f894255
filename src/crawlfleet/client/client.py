"""The API for programs: `async with Client(url, key) as fleet: await fleet.submit("sleep")`."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from crawlfleet.client.http.calls import PATIENCE_S, as_query, segment
from crawlfleet.client.resources.alerts import AlertCalls
from crawlfleet.client.resources.breakers import BreakerCalls
from crawlfleet.client.resources.bundles import BundleCalls
from crawlfleet.client.resources.crawls import CrawlCalls
from crawlfleet.client.resources.executions import ExecutionCalls
from crawlfleet.client.resources.keys import KeyCalls
from crawlfleet.client.resources.projects import AdministrationCalls
from crawlfleet.client.resources.quality import QualityCalls
from crawlfleet.client.resources.quotas import QuotaCalls
from crawlfleet.client.resources.schedules import ScheduleCalls
from crawlfleet.client.resources.secrets import SecretCalls
from crawlfleet.client.resources.webhooks import WebhookCalls
from crawlfleet.client.resources.workflows import WorkflowCalls
from crawlfleet.model.attention import AttentionList, Concern
from crawlfleet.model.statistics import Series, Statistics, TaskTypePage, TaskTypeView
from crawlfleet.tls import Trust
from crawlfleet.views.events import EventPage, EventView
from crawlfleet.views.nodes import NodeHistoryView, NodePage, NodeView
from crawlfleet.views.status import FleetStatus, Liveness

if TYPE_CHECKING:
    from crawlfleet.client.blocking import BlockingClient


class Client(
    ExecutionCalls,
    CrawlCalls,
    ScheduleCalls,
    WorkflowCalls,
    WebhookCalls,
    AlertCalls,
    AdministrationCalls,
    QuotaCalls,
    QualityCalls,
    BreakerCalls,
    BundleCalls,
    SecretCalls,
    KeyCalls,
):
    """A client of a fleet's API. Errors are those of `crawlfleet.errors`.

    `url` may name several masters, separated by commas; `host:port` is short for
    `http://host:port`. Raises `ConfigError` for an address or a key that cannot be one.

    A call to a master that does not answer, or is busy, is repeated for up to `patience_s`; 0 means
    never. `trust` names the certificates to trust besides those of the machine's authorities:
    `Client("https://…", key, trust=Trust(ca="ca.pem"))`.
    """

    @classmethod
    def blocking(
        cls,
        url: str,
        key: str,
        *,
        patience_s: float = PATIENCE_S,
        trust: Trust = Trust(),  # noqa: B008 (frozen)
    ) -> "BlockingClient":
        """Return a client for programs without an event loop: every method waits for its result."""
        from crawlfleet.client.blocking import BlockingClient

        return BlockingClient(url, key, patience_s=patience_s, trust=trust)

    async def newest_events(
        self, limit: int = 100, *, kind: str = "", subject: str | None = None
    ) -> list[EventView]:
        """Return the last events of the fleet, in order (1,000 at most)."""
        query = {"newest": True, "limit": limit, "kind": kind, "subject": subject}
        return (await self._get("/events", EventPage, as_query(query))).items

    def events_after(
        self,
        after: int = 0,
        *,
        limit: int | None = None,
        kind: str = "",
        subject: str | None = None,
    ) -> AsyncIterator[EventView]:
        """Iterate over events with a higher number, in order, page by page; at most `limit`."""
        query = {"after": after, "kind": kind, "subject": subject}
        return self._pages("/events", EventPage, query, limit=limit, cursor="after")

    def stream_events(
        self,
        after: int | None = None,
        *,
        kind: str = "",
        subject: str | None = None,
        patience_s: float = 60.0,
    ) -> AsyncGenerator[EventView, None]:
        """Stream events of the fleet as they happen: after that number, or from now on.

        `kind` is the beginning of their kind, `subject` the id of their subject. The stream goes on
        after a broken connection, without a gap, unless the master stays away for `patience_s`.
        """
        query = {"after": after, "kind": kind, "subject": subject}
        return self._stream("/events", EventView, query, patience_s)

    async def nodes(self, **filters: str) -> list[NodeView]:
        """Return all nodes in order of registration, or those of a `status` or `cluster_id`."""
        return (await self._get("/nodes", NodePage, filters)).items

    async def node(self, node_id: str) -> NodeView:
        """Return one node."""
        return await self._get(f"/nodes/{segment(node_id)}", NodeView)

    async def order(self, node_id: str, verb: str, *, if_version: int | None = None) -> NodeView:
        """Order a node to `drain`, `resume`, and so on: the verbs of the API."""
        return await self._post(f"/nodes/{segment(node_id)}:{verb}", NodeView, None, if_version)

    async def drain(
        self, node_id: str, *, deadline_s: float | None = None, if_version: int | None = None
    ) -> NodeView:
        """Let a node finish its work and go; at the deadline the rest is taken back."""
        order = {"deadline_s": deadline_s}
        return await self._post(f"/nodes/{segment(node_id)}:drain", NodeView, order, if_version)

    async def change_node(
        self,
        node_id: str,
        *,
        labels: Mapping[str, str | None] | None = None,
        description: str | None = None,
        version: int | None = None,
    ) -> NodeView:
        """Set labels (`None` removes one) and the description of a node.

        With a `version`, raises `PreconditionFailed` if the node has another version by now.
        """
        body: dict[str, Any] = {"labels": labels or {}}
        if description is not None:
            body["description"] = description
        return await self._patch(f"/nodes/{segment(node_id)}", NodeView, body, version)

    async def node_history(
        self,
        node_id: str,
        *,
        resolution: str = "minute",
        since: datetime | None = None,
        limit: int = 1500,
    ) -> NodeHistoryView:
        """Return a node's samples, `raw` or means of a `minute` or `hour`; the last `limit`."""
        query = {"resolution": resolution, "limit": str(limit)}
        if since is not None:
            query["since"] = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return await self._get(f"/nodes/{segment(node_id)}/history", NodeHistoryView, query)

    async def status(self) -> FleetStatus:
        """Return the fleet's most important counts."""
        return await self._get("/status", FleetStatus)

    async def statistics(self) -> Statistics:
        """Return the present counts of the fleet, and the throughput of the last hour."""
        return await self._get("/statistics", Statistics)

    async def series(self, minutes: float = 60.0) -> Series:
        """Return the counts of the last `minutes` (60 at most) for charts, by this master."""
        return await self._get("/statistics/series", Series, {"minutes": f"{minutes:g}"})

    async def attention(self) -> tuple[Concern, ...]:
        """Return the concerns that people should look at, the most pressing first."""
        return (await self._get("/attention", AttentionList)).items

    async def task_types(self) -> list[TaskTypeView]:
        """Return the task types of the fleet, and the JSON schemas of their parameters."""
        return (await self._get("/task-types", TaskTypePage)).items

    async def liveness(self) -> Liveness:
        """Check that the master's process is alive."""
        return await self._call("GET", "/healthz", Liveness)

    async def readiness(self) -> Liveness:
        """Wait until the master can do its work; `MasterUnreachable` after `patience_s`."""
        return await self._call("GET", "/readyz", Liveness)

    async def metrics(self) -> str:
        """Measurements in Prometheus's text format."""
        return await self._call("GET", "/metrics", str)

    async def openapi(self) -> dict[str, Any]:
        """The API as an OpenAPI document."""
        return await self._call("GET", "/api/openapi.json", dict[str, Any])

    async def reference(self) -> str:
        """The API as a page of HTML."""
        return await self._call("GET", "/api/reference", str)
