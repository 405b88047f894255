"""Settings in sections; each part of the program is given only the section that it uses.

How they are read from files, environment and flags is `crawlfleet.config`'s business.
"""

import msgspec

from crawlfleet.model.resources import NOTHING, Resources


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of settings that belong together."""


class ServerSettings(Section, frozen=True, kw_only=True):
    """Where the master listens."""

    host: str = "127.0.0.1"
    port: int = 8000
    max_body_mb: float = 16.0
    """A larger request is refused before it is read."""


class SessionSettings(Section, frozen=True, kw_only=True):
    """How a node proves that it is alive."""

    heartbeat_interval_s: float = 3.0
    timeout_s: float = 12.0
    """A node that is silent for so long loses its session, and with it its work."""
    long_poll_s: float = 20.0


class DispatchSettings(Section, frozen=True, kw_only=True):
    """How ready tasks find their nodes."""

    default_strategy: str = "least_loaded"
    ageing_s: float = 600.0
    """Waiting so long is worth one step of priority, so that nothing starves."""
    batch: int = 1000
    """At most so many assignments in one commit."""


class RecoverySettings(Section, frozen=True, kw_only=True):
    """What bounds a task that does not succeed."""

    max_losses: int = 20
    """A task that vanished with its node so often is taken for poison."""
    timeout_grace_s: float = 10.0
    """How long the master waits for a node to enforce a task's time limit before it does."""


class RetentionSettings(Section, frozen=True, kw_only=True):
    """How long finished things are kept, in days; zero keeps them for ever."""

    tasks_days: float = 30.0
    events_days: float = 30.0
    step: int = 500
    """Remove at most so many at once, so that nobody waits for the broom."""


class WorkerSettings(Section, frozen=True, kw_only=True):
    """What a node is, offers and allows."""

    name: str = ""
    """The machine's name when empty."""
    slots: int = 4
    """How many executions run at once."""
    node_type: str = "standard"
    region: str | None = None
    labels: dict[str, str] = {}
    capabilities: dict[str, bool | float | str | list[str]] = {}
    resources: Resources = NOTHING
    """Capacity to offer; what is zero here is measured on the machine."""
    python_allow: tuple[str, ...] = ()
    """Which functions the `python` executor may import: `package.module:function`, `package.*`."""
    python_modules: tuple[str, ...] = ()
    """Modules that register functions with `@task`, imported by each executor process."""
    commands: dict[str, tuple[str, ...]] = {}
    """Executors that are programs of their own: task type to command line."""
    allow_private: bool = False
    """Whether `http_fetch` may reach loopback, private and link-local addresses."""
    stop_grace_s: float = 1.0
    """How long a stopped executor may take before it is killed."""


class LogSettings(Section, frozen=True, kw_only=True):
    level: str = "info"
    format: str = "auto"
    """`console` for people, `json` for machines, `auto` by whether a terminal is there."""
    max_file_mb: float = 20.0
    files: int = 5


class Settings(Section, frozen=True, kw_only=True):
    """Everything that can be set."""

    data_dir: str = ""
    """Where the store, logs and keys live; `~/.local/share/crawlfleet` when empty."""
    store: str = ""
    """The store's URL; a SQLite file in `data_dir` when empty."""
    workers: int = 2
    """How many worker processes `up` starts."""
    server: ServerSettings = ServerSettings()
    session: SessionSettings = SessionSettings()
    dispatch: DispatchSettings = DispatchSettings()
    recovery: RecoverySettings = RecoverySettings()
    retention: RetentionSettings = RetentionSettings()
    worker: WorkerSettings = WorkerSettings()
    log: LogSettings = LogSettings()
