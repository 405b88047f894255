"""The sections of the API's description, and to which of them a route belongs."""

import re
from typing import Final

import msgspec

from crawlfleet.api.http.routing import NODES, Route


class ReferenceSection(msgspec.Struct, frozen=True, kw_only=True):
    """Routes that are described together."""

    name: str
    """The tag in the OpenAPI document."""
    title: str
    text: str
    """Introduction of the section as Markdown; links are relative to `docs/reference/api.md`."""


SECTIONS: Final = (
    ReferenceSection(
        name="tasks",
        title="Tasks",
        text="Submit work, look at it, and change what becomes of it.",
    ),
    ReferenceSection(
        name="quality",
        title="Quality",
        text="Whether the items of tasks are as their `expectations` say, series by series. See "
        "[the quality of what is found](../guides/quality.md).",
    ),
    ReferenceSection(
        name="executions",
        title="Executions",
        text="The attempts at tasks, and their logs.",
    ),
    ReferenceSection(
        name="crawls",
        title="Crawls",
        text="A crawl is a task of the type `web_crawl`, and has the task's id. A crawl without "
        "`sinks` hands its items over to the master, piece by piece, where they can be read while "
        "it runs ([guide](../guides/output.md#in-a-fleet)).",
    ),
    ReferenceSection(name="hosts", title="Hosts", text="The hosts that the fleet visits."),
    ReferenceSection(name="breakers", title="Breakers", text="Sites that are taken for down."),
    ReferenceSection(
        name="dead-letters",
        title="Dead letters",
        text="A task that is not tried again (its retries are used up, its error is not one to "
        "retry, or it vanished with too many nodes) is a dead letter until it is sent back or "
        "discarded.",
    ),
    ReferenceSection(
        name="workflows",
        title="Workflows",
        text="Steps that depend on each other; the [guide](../guides/workflows.md) describes the "
        "document.",
    ),
    ReferenceSection(name="runs", title="Runs", text="One execution of a version of a workflow."),
    ReferenceSection(
        name="schedules",
        title="Schedules",
        text="Work that begins by the clock; the [guide](../guides/schedules.md) says what the "
        "fields mean.",
    ),
    ReferenceSection(
        name="webhooks",
        title="Webhooks",
        text="Who is told of what happens; the [guide](../guides/webhooks.md) says what is sent "
        "and how to check it.",
    ),
    ReferenceSection(
        name="alerts",
        title="Alerts",
        text="Rules that say when people should be told; the [guide](../guides/alerts.md) says "
        "what they mean.",
    ),
    ReferenceSection(
        name="projects",
        title="Projects",
        text="A project is a tenant: it owns tasks and clusters. `default` is there from the "
        "start.",
    ),
    ReferenceSection(
        name="quotas",
        title="Quotas",
        text="The limits and fair shares of projects, and what they use of them "
        "([guide](../guides/quotas.md)).",
    ),
    ReferenceSection(name="usage", title="Usage", text="What projects have used over time."),
    ReferenceSection(
        name="bundles",
        title="Bundles",
        text="A bundle is code that people hand over to the fleet, in numbered versions. It "
        "belongs to a project, and has a name there. See [bundles](../guides/bundles.md).",
    ),
    ReferenceSection(
        name="secrets",
        title="Secrets",
        text="A secret is something that code of a project may know and nobody reads: a password, "
        "a key. See [secrets](../guides/secrets.md).",
    ),
    ReferenceSection(
        name="clusters",
        title="Clusters",
        text="A cluster is a group of nodes with settings of its own; a task names its cluster by "
        "`cluster_id`, a node by the setting `worker.cluster`. Only tasks of its project may name "
        "it; a cluster of the project `default` is shared by all projects. The cluster `default` "
        "is there from the start. See "
        "[projects and clusters](../guides/projects-and-clusters.md).",
    ),
    ReferenceSection(name="settings", title="Settings", text="What a running master works by."),
    ReferenceSection(name="events", title="Events", text="The log of everything that happens."),
    ReferenceSection(name="nodes", title="Nodes", text="Look at nodes and give them orders."),
    ReferenceSection(
        name="keys",
        title="Keys",
        text="Who may use this API; [who may do what](../guides/security.md) says how keys are "
        "meant. Only the answer that makes a secret shows it; it has `Cache-Control: no-store`.",
    ),
    ReferenceSection(
        name="join-tokens",
        title="Join tokens",
        text="How new nodes are let in. Only the answer that makes a secret shows it; it has "
        "`Cache-Control: no-store`.",
    ),
    ReferenceSection(
        name="session",
        title="Signing in",
        text="A browser shows a key once, and a cookie from then on: `crawlfleet_session`, which "
        "no script can read (`HttpOnly`), which goes with requests of our own page alone "
        "(`SameSite=Strict`), and only by TLS where it came by TLS (`Secure`). A session may do "
        "what its key may; every route takes it. A request that is not a `GET` also needs "
        "`X-Crawlfleet-Csrf` with the session's `csrf`, and an `Origin` that is this master's: "
        "else it is a 403.",
    ),
    ReferenceSection(name="audit", title="The audit log", text="Who changed what."),
    ReferenceSection(
        name="distribution",
        title="Distribution",
        text="The API of an earlier system, over the same services: its devices are nodes, its "
        "tasks are tasks ([guide](../guides/distribution.md)). Times are in seconds.",
    ),
    ReferenceSection(
        name="node-protocol",
        title="What nodes say",
        text="Only needed to write a node of your own; "
        "[concepts](../concepts.md#the-lease-protocol) says how these fit together. An admin key "
        "may use them, too.",
    ),
    ReferenceSection(
        name="master", title="The master", text="The master itself, and the whole fleet."
    ),
)
_NAMES: Final = frozenset(each.name for each in SECTIONS)
_LINK: Final = re.compile(r"\[([^\[\]]+)\]\([^()]*\)")


def section_of(route: Route) -> str:
    """The name of the section that describes a route."""
    if route.section:
        return route.section
    if route.path.startswith("/api/distribution/"):
        return "distribution"
    if route.roles == NODES:
        return "node-protocol"
    within = re.match(r"/api/v1/(?:projects/\{project_id\}/)?([\w-]+)", route.path)
    return within[1] if within and within[1] in _NAMES else "master"


def without_links(text: str) -> str:
    """Markdown with the texts of its links in place of them."""
    return _LINK.sub(r"\1", text)
