"""Settings in sections; each part of the program is given only the section that it uses.

Ranges and descriptions are beside the fields, where error messages and the reference find them.
`crawlfleet.config` reads settings from files, environment and flags.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from crawlfleet.model.resources import NOTHING, Resources
from crawlfleet.model.settings.health import HealthSettings as HealthSettings
from crawlfleet.model.settings.ranges import Count, Delay, Megabytes, Seconds
from crawlfleet.model.settings.recovery import BreakerSettings as BreakerSettings
from crawlfleet.model.settings.recovery import RecoverySettings as RecoverySettings
from crawlfleet.model.settings.retention import RetentionSettings as RetentionSettings
from crawlfleet.model.settings.sandbox import SandboxSettings as SandboxSettings
from crawlfleet.model.settings.webhooks import MailSettings as MailSettings
from crawlfleet.model.settings.webhooks import WebhookSettings as WebhookSettings


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of settings that belong together."""


class ServerSettings(Section, frozen=True, kw_only=True):
    """The address of the master, and access to it."""

    host: Annotated[str, Meta(min_length=1, description="The address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="The port to listen on; 0 takes a free one.")
    ] = 8000
    tls_cert: Annotated[
        str,
        Meta(description="The file of the certificate with its chain (PEM); it switches on TLS."),
    ] = ""
    tls_key: Annotated[
        str, Meta(description="The file of the private key, if it is not in the same file.")
    ] = ""
    tls_client_ca: Annotated[
        str,
        Meta(
            description="A file of authorities: every client must show a certificate of one "
            "of them."
        ),
    ] = ""
    plain_http: Annotated[
        bool,
        Meta(
            description="Whether to answer other machines without TLS: behind a proxy, or in "
            "a network where nobody else listens."
        ),
    ] = False
    announce: Annotated[
        bool,
        Meta(
            description="Whether to announce this master in the local network (zeroconf), for"
            " workers with `worker.discover`; needs TLS."
        ),
    ] = False
    max_body_mb: Annotated[
        float,
        Meta(
            ge=4,
            description="The largest request body; a larger one is refused before it is read."
            " At least 4.",
        ),
    ] = 16.0
    allow_clients: Annotated[
        tuple[str, ...],
        Meta(
            description="The only addresses and networks that may send requests, such as "
            "`10.0.0.0/8`; all when empty."
        ),
    ] = ()
    allow_loopback: Annotated[
        bool, Meta(description="Whether this machine itself may always send requests.")
    ] = True
    trusted_proxies: Annotated[
        tuple[str, ...],
        Meta(description="The proxies whose `X-Forwarded-For` is trusted; none when empty."),
    ] = ()
    wrong_keys_per_minute: Annotated[
        int,
        Meta(
            ge=0,
            description="An address that sends more unknown keys is locked out for a while; 0"
            " for no limit.",
        ),
    ] = 10
    sign_in_hours: Annotated[
        float,
        Meta(gt=0, le=8784, description="The lifetime of a browser session."),
    ] = 24.0


class SessionSettings(Section, frozen=True, kw_only=True):
    """Heartbeats and timeouts of nodes."""

    heartbeat_interval_s: Annotated[
        Seconds, Meta(description="The interval of the heartbeats of a node.")
    ] = 3.0
    timeout_s: Annotated[
        Seconds,
        Meta(
            description="A node that is silent for this time loses its session and its work; "
            "more than twice the heartbeat interval."
        ),
    ] = 12.0
    long_poll_s: Annotated[
        Seconds, Meta(description="How long a request of a node for work waits when there is none.")
    ] = 20.0
    reconnect_s: Annotated[
        Seconds,
        Meta(
            description="A node whose connection broke loses its session and its work unless "
            "it sends a request within this time: usually its process has died."
        ),
    ] = 1.5


class TaskSettings(Section, frozen=True, kw_only=True):
    """Rules for submitted tasks."""

    create_projects: Annotated[
        bool,
        Meta(description="Whether a task for an unknown project creates that project."),
    ] = True


class DistributionSettings(Section, frozen=True, kw_only=True):
    """Defaults of tasks from `/api/distribution`."""

    task_timeout_s: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="The timeout of an attempt of such a task; none when not set."),
    ] = 3600.0
    max_retries: Annotated[
        int, Meta(ge=0, le=100, description="How many failures of such a task are retried.")
    ] = 3


class DispatchSettings(Section, frozen=True, kw_only=True):
    """The placement of tasks on nodes."""

    default_strategy: Annotated[
        str, Meta(min_length=1, description="The strategy for tasks that name none.")
    ] = "least_loaded"
    ageing_s: Annotated[
        Seconds,
        Meta(description="Waiting for this time is worth one priority, so that no task starves."),
    ] = 600.0
    batch: Annotated[Count, Meta(description="The most assignments in one commit.")] = 2000
    warm_patience_s: Annotated[
        float,
        Meta(
            ge=0,
            description="How long a task of a bundle waits for a node that has its "
            "environment, or prepares it, before any other node will do; 0: not "
            "at all.",
        ),
    ] = 3.0


class WorkerSettings(Section, frozen=True, kw_only=True):
    """The identity, capacity and rules of a node."""

    name: Annotated[str, Meta(description="The node's name; the machine's name when empty.")] = ""
    cluster: Annotated[
        str, Meta(min_length=1, description="The cluster that the node joins; it must exist.")
    ] = "default"
    tls_ca: Annotated[
        str,
        Meta(
            description="The file of the authorities for the master's certificate; those of "
            "the machine when empty."
        ),
    ] = ""
    tls_cert: Annotated[
        str, Meta(description="The file of a certificate for a master that asks for one.")
    ] = ""
    tls_key: Annotated[
        str, Meta(description="The file of the private key, if it is not in the same file.")
    ] = ""
    discover: Annotated[
        bool,
        Meta(
            description="Whether to find the master in the local network (zeroconf) instead "
            "of by its address."
        ),
    ] = False
    slots: Annotated[Count, Meta(description="How many executions run at once.")] = 4
    node_type: Annotated[
        str, Meta(min_length=1, description="A kind of node that tasks may demand.")
    ] = "standard"
    region: Annotated[
        str | None, Meta(description="The location of the node, such as `eu-west`.")
    ] = None
    labels: Annotated[dict[str, str], Meta(description="Free labels of the node.")] = {}
    capabilities: Annotated[
        dict[str, bool | float | str | list[str]],
        Meta(description="The capabilities of the node: flags, levels, texts or lists of texts."),
    ] = {}
    resources: Annotated[
        Resources,
        Meta(description="Capacity to offer; what is zero here is measured on the machine."),
    ] = NOTHING
    python_allow: Annotated[
        tuple[str, ...],
        Meta(
            description="The functions that the `python` executor may import: "
            "`package.module:function`, `package.*`."
        ),
    ] = ()
    python_modules: Annotated[
        tuple[str, ...],
        Meta(
            description="Modules that register functions with `@task`, imported by each "
            "executor process."
        ),
    ] = ()
    commands: Annotated[
        dict[str, tuple[str, ...]],
        Meta(description="Executors that are separate programs: task type to command line."),
    ] = {}
    allow_private: Annotated[
        bool,
        Meta(
            description="Whether `http_fetch` may reach loopback, private and link-local "
            "addresses and those of the node itself, and `web_crawl` if the crawl"
            " asks for it too; the same rule applies to sinks of tasks."
        ),
    ] = False
    sinks_dir: Annotated[
        str,
        Meta(
            description="The folder below which sinks of tasks write their files; `sinks` in "
            "`data_dir` when empty. It must have no other purpose."
        ),
    ] = ""
    bundles: Annotated[
        bool,
        Meta(
            description="Whether this node runs deployed code: the task types `scrapy_spider`"
            " and `command`, and `python` with a bundle."
        ),
    ] = False
    bundles_unconfined: Annotated[
        bool,
        Meta(
            description="Whether that code may run with the rights of the node's own user if "
            "`worker.sandbox.level` is `off`; otherwise such a worker does not "
            "start."
        ),
    ] = False
    code_dir: Annotated[
        str,
        Meta(
            description="The folder of that code, its environments and its scratch folders; a"
            " folder beside `data_dir`, with `-code` at the end of its name, when"
            " empty. Workers of one machine may share it."
        ),
    ] = ""
    environments_mb: Annotated[
        Megabytes,
        Meta(
            description="The disk space for environments of bundles; the least recently used "
            "ones are removed first."
        ),
    ] = 4000.0
    install_timeout_s: Annotated[
        Seconds,
        Meta(description="The timeout for installing the packages of a bundle."),
    ] = 900.0
    advertise: Annotated[
        str,
        Meta(
            description="The IP address and port, such as `10.0.0.7:8010`, at which the "
            "master may probe the node; none when empty."
        ),
    ] = ""
    health_host: Annotated[
        str,
        Meta(
            description="The address that the health endpoint listens on; the advertised one,"
            " or else loopback, when empty."
        ),
    ] = ""
    health_port: Annotated[
        Annotated[int, Meta(ge=0, le=65535)] | None,
        Meta(
            description="The port of the health endpoint; 0 takes a free one. When not set, the "
            "advertised one, and no endpoint when nothing is advertised."
        ),
    ] = None
    leave_grace_s: Annotated[
        Delay,
        Meta(
            description="How long a worker that is asked to stop (SIGTERM) lets its work "
            "finish, without new work, before it gives it back."
        ),
    ] = 0.0
    stop_grace_s: Annotated[
        Seconds,
        Meta(description="How long a stopped executor may take before it is killed."),
    ] = 1.0
    report_buffer_mb: Annotated[
        Megabytes,
        Meta(
            description="The most finished work that waits on this node's disk for a master "
            "that does not answer; with more, the node takes no new work."
        ),
    ] = 64.0
    execution_log_mb: Annotated[
        Megabytes,
        Meta(
            description="How much of the log of one execution is kept: its first and its last"
            " lines."
        ),
    ] = 1.0
    sandbox: SandboxSettings = SandboxSettings()


class LogSettings(Section, frozen=True, kw_only=True):
    """Log files."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="The lowest level of the lines to write."),
    ] = "info"
    format: Annotated[
        Literal["auto", "console", "json"],
        Meta(
            description="`console` for people, `json` for machines, `auto` depending on "
            "whether there is a terminal."
        ),
    ] = "auto"
    max_file_mb: Annotated[Megabytes, Meta(description="A log file of this size is rotated.")] = (
        20.0
    )
    files: Annotated[
        Count, Meta(description="How many log files to keep, including the current one.")
    ] = 5


class Settings(Section, frozen=True, kw_only=True):
    """Everything that can be set."""

    data_dir: Annotated[
        str,
        Meta(
            description="The folder of the store, logs and keys; `~/.local/share/crawlfleet` "
            "when empty."
        ),
    ] = ""
    store: Annotated[
        str, Meta(description="The URL of the store; a SQLite file in `data_dir` when empty.")
    ] = ""
    output_dir: Annotated[
        str,
        Meta(
            description="The folder of the output of crawls; `output` in `data_dir` when "
            "empty. Several masters need one shared folder."
        ),
    ] = ""
    locks: Annotated[
        str,
        Meta(
            description="Where the locks of executions are kept, as a URL: `sqlite:`, "
            "`postgresql:` or `redis:`; beside the store when empty."
        ),
    ] = ""
    ledger: Annotated[
        str,
        Meta(
            description="How several crawls share the hosts that they visit: with `on` the "
            "leading master keeps one ledger for all of them, with a `redis:` URL"
            " that Redis keeps it, with `off` each crawl is polite by itself "
            "only."
        ),
    ] = "on"
    frontier: Annotated[
        str,
        Meta(
            description="The `redis:` URL for frontiers of crawls with several nodes, which "
            "these nodes receive; with an empty value the leading master keeps "
            "them."
        ),
    ] = ""
    workers: Annotated[
        int, Meta(ge=0, description="The number of worker processes that `up` starts; 0 for none.")
    ] = 2
    server: ServerSettings = ServerSettings()
    session: SessionSettings = SessionSettings()
    tasks: TaskSettings = TaskSettings()
    distribution: DistributionSettings = DistributionSettings()
    dispatch: DispatchSettings = DispatchSettings()
    recovery: RecoverySettings = RecoverySettings()
    health: HealthSettings = HealthSettings()
    retention: RetentionSettings = RetentionSettings()
    webhooks: WebhookSettings = WebhookSettings()
    breakers: BreakerSettings = BreakerSettings()
    mail: MailSettings = MailSettings()
    worker: WorkerSettings = WorkerSettings()
    log: LogSettings = LogSettings()
