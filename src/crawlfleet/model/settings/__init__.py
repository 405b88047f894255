"""Settings in sections; each part of the program is given only the section that it uses.

Ranges and descriptions stand beside the fields, where error messages and the reference find them.
How settings are read from files, environment and flags is `crawlfleet.config`'s business.
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
    """Where the master listens."""

    host: Annotated[str, Meta(min_length=1, description="The address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="The port to listen on; 0 takes a free one.")
    ] = 8000
    tls_cert: Annotated[
        str,
        Meta(description="File of the certificate to show, with its chain (PEM): switches on TLS."),
    ] = ""
    tls_key: Annotated[
        str, Meta(description="File of its key, if that is not in the same file.")
    ] = ""
    tls_client_ca: Annotated[
        str,
        Meta(
            description="File of authorities: whoever asks anything must show a certificate of "
            "theirs."
        ),
    ] = ""
    plain_http: Annotated[
        bool,
        Meta(
            description="Whether others than this machine may be answered without TLS: behind a "
            "proxy, or in a network where nobody listens."
        ),
    ] = False
    announce: Annotated[
        bool,
        Meta(
            description="Whether to tell the local network of this master (zeroconf), for workers "
            "with `worker.discover`; needs TLS."
        ),
    ] = False
    max_body_mb: Annotated[
        float,
        Meta(ge=4, description="A larger request is refused before it is read; at least 4."),
    ] = 16.0
    allow_clients: Annotated[
        tuple[str, ...],
        Meta(
            description="Addresses and networks that may ask anything at all, such as "
            "`10.0.0.0/8`; everybody when empty."
        ),
    ] = ()
    allow_loopback: Annotated[
        bool, Meta(description="Whether this machine itself may always ask.")
    ] = True
    trusted_proxies: Annotated[
        tuple[str, ...],
        Meta(description="Proxies whose `X-Forwarded-For` is believed; nobody's when empty."),
    ] = ()
    wrong_keys_per_minute: Annotated[
        int,
        Meta(
            ge=0,
            description="More unknown keys from one address lock it out for a while; 0 for no "
            "limit.",
        ),
    ] = 10
    sign_in_hours: Annotated[
        float,
        Meta(gt=0, le=8784, description="A browser that signed in has to do so again after that."),
    ] = 24.0


class SessionSettings(Section, frozen=True, kw_only=True):
    """How a node proves that it is alive."""

    heartbeat_interval_s: Annotated[
        Seconds, Meta(description="How often a node says that it is alive.")
    ] = 3.0
    timeout_s: Annotated[
        Seconds,
        Meta(
            description="A node that is silent for so long loses its session, and with it its "
            "work; more than twice the heartbeat interval."
        ),
    ] = 12.0
    long_poll_s: Annotated[
        Seconds, Meta(description="How long a node's request for work waits when there is none.")
    ] = 20.0
    reconnect_s: Annotated[
        Seconds,
        Meta(
            description="A node whose connection broke loses its session, and with it its work, "
            "unless it is heard again within so long: most often its process has died."
        ),
    ] = 1.5


class TaskSettings(Section, frozen=True, kw_only=True):
    """What is accepted."""

    create_projects: Annotated[
        bool,
        Meta(description="Whether a task for an unknown project makes that project."),
    ] = True


class DistributionSettings(Section, frozen=True, kw_only=True):
    """What tasks that come over `/api/distribution` have where they say nothing."""

    task_timeout_s: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="How long an attempt of such a task may take; for ever when not set."),
    ] = 3600.0
    max_retries: Annotated[
        int, Meta(ge=0, le=100, description="How often such a task is tried again.")
    ] = 3


class DispatchSettings(Section, frozen=True, kw_only=True):
    """How ready tasks find their nodes."""

    default_strategy: Annotated[
        str, Meta(min_length=1, description="The strategy for tasks that name none.")
    ] = "least_loaded"
    ageing_s: Annotated[
        Seconds,
        Meta(description="Waiting so long is worth one step of priority, so that nothing starves."),
    ] = 600.0
    batch: Annotated[Count, Meta(description="At most so many assignments in one commit.")] = 2000
    warm_patience_s: Annotated[
        float,
        Meta(
            ge=0,
            description="How long a task with code of a bundle waits for a node that has its "
            "environment, or makes it, before any other will do; 0: not at all.",
        ),
    ] = 3.0


class WorkerSettings(Section, frozen=True, kw_only=True):
    """What a node is, offers and allows."""

    name: Annotated[str, Meta(description="The node's name; the machine's name when empty.")] = ""
    cluster: Annotated[
        str, Meta(min_length=1, description="The cluster that the node joins; it must exist.")
    ] = "default"
    tls_ca: Annotated[
        str,
        Meta(
            description="File of the authorities that the master's certificate must be of; "
            "those that the machine trusts when empty."
        ),
    ] = ""
    tls_cert: Annotated[
        str, Meta(description="File of a certificate to show to a master that asks for one.")
    ] = ""
    tls_key: Annotated[
        str, Meta(description="File of its key, if that is not in the same file.")
    ] = ""
    discover: Annotated[
        bool,
        Meta(
            description="Whether to look for the master on the local network (zeroconf) instead "
            "of being told where it is."
        ),
    ] = False
    slots: Annotated[Count, Meta(description="How many executions run at once.")] = 4
    node_type: Annotated[
        str, Meta(min_length=1, description="A kind of node that tasks may ask for.")
    ] = "standard"
    region: Annotated[str | None, Meta(description="Where the node stands, such as `eu-west`.")] = (
        None
    )
    labels: Annotated[dict[str, str], Meta(description="Free notes on the node.")] = {}
    capabilities: Annotated[
        dict[str, bool | float | str | list[str]],
        Meta(description="What the node can do: flags, levels, texts or lists of texts."),
    ] = {}
    resources: Annotated[
        Resources,
        Meta(description="Capacity to offer; what is zero here is measured on the machine."),
    ] = NOTHING
    python_allow: Annotated[
        tuple[str, ...],
        Meta(
            description="Which functions the `python` executor may import: "
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
        Meta(description="Executors that are programs of their own: task type to command line."),
    ] = {}
    allow_private: Annotated[
        bool,
        Meta(
            description="Whether `http_fetch` may reach loopback, private and link-local "
            "addresses and those of the node itself, and `web_crawl` where the crawl asks for it "
            "too; sinks of tasks, too, connect nowhere else."
        ),
    ] = False
    sinks_dir: Annotated[
        str,
        Meta(
            description="The folder below which sinks of tasks write their files; `sinks` in "
            "`data_dir` when empty. It is for nothing else."
        ),
    ] = ""
    bundles: Annotated[
        bool,
        Meta(
            description="Whether this node runs code that people hand over: the task types "
            "`scrapy_spider` and `command`, and `python` with a bundle."
        ),
    ] = False
    bundles_unconfined: Annotated[
        bool,
        Meta(
            description="Whether that code may run with the rights of the node's own user where "
            "`worker.sandbox.level` is `off`; such a worker does not start otherwise."
        ),
    ] = False
    code_dir: Annotated[
        str,
        Meta(
            description="Where that code, its environments and its scratch folders are; a folder "
            "beside `data_dir`, with `-code` at the end of its name, when empty. Workers of one "
            "machine may share it."
        ),
    ] = ""
    environments_mb: Annotated[
        Megabytes,
        Meta(
            description="How much environments of bundles may take on the disk; those not used "
            "for longest go first."
        ),
    ] = 4000.0
    install_timeout_s: Annotated[
        Seconds,
        Meta(description="How long installing the packages of a bundle may take."),
    ] = 900.0
    advertise: Annotated[
        str,
        Meta(
            description="The IP address and port, such as `10.0.0.7:8010`, at which the master "
            "may ask whether the node is well; nowhere when empty."
        ),
    ] = ""
    health_host: Annotated[
        str,
        Meta(
            description="The address that the health endpoint listens on; the advertised one, or "
            "else the loopback, when empty."
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
            description="How long a worker that is told to stop (SIGTERM) lets its work finish, "
            "taking nothing new, before it gives it back."
        ),
    ] = 0.0
    stop_grace_s: Annotated[
        Seconds,
        Meta(description="How long a stopped executor may take before it is killed."),
    ] = 1.0
    report_buffer_mb: Annotated[
        Megabytes,
        Meta(
            description="How much finished work may wait on this node's disk for a master that "
            "does not answer; with more, the node takes no new work."
        ),
    ] = 64.0
    execution_log_mb: Annotated[
        Megabytes,
        Meta(
            description="How much of the log of one execution is kept: its first and its last "
            "lines; those between are left out."
        ),
    ] = 1.0
    sandbox: SandboxSettings = SandboxSettings()


class LogSettings(Section, frozen=True, kw_only=True):
    """What is written of what happens."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="The least important lines to write."),
    ] = "info"
    format: Annotated[
        Literal["auto", "console", "json"],
        Meta(
            description="`console` for people, `json` for machines, `auto` by whether a terminal "
            "is there."
        ),
    ] = "auto"
    max_file_mb: Annotated[
        Megabytes, Meta(description="A log file that has grown so large is put aside.")
    ] = 20.0
    files: Annotated[
        Count, Meta(description="How many log files to keep, the one being written included.")
    ] = 5


class Settings(Section, frozen=True, kw_only=True):
    """Everything that can be set."""

    data_dir: Annotated[
        str,
        Meta(
            description="Where the store, logs and keys live; `~/.local/share/crawlfleet` when "
            "empty."
        ),
    ] = ""
    store: Annotated[
        str, Meta(description="The store's URL; a SQLite file in `data_dir` when empty.")
    ] = ""
    output_dir: Annotated[
        str,
        Meta(
            description="Where the output of crawls is kept; `output` in `data_dir` when empty. "
            "Several masters need one that they share."
        ),
    ] = ""
    locks: Annotated[
        str,
        Meta(
            description="Where locks of executions are kept, as a URL: `sqlite:`, `postgresql:` or "
            "`redis:`; beside the store when empty."
        ),
    ] = ""
    ledger: Annotated[
        str,
        Meta(
            description="How hosts are treated by several crawls at once: `on` has the leading "
            "master keep one ledger for all of them, a `redis:` URL keeps it there, `off` lets "
            "each crawl see to its own."
        ),
    ] = "on"
    frontier: Annotated[
        str,
        Meta(
            description="Where crawls keep their frontiers that several nodes work for, as a "
            "`redis:` URL, which these nodes are told; with the leading master when empty."
        ),
    ] = ""
    workers: Annotated[
        int, Meta(ge=0, description="How many worker processes `up` starts; 0 for none.")
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
