"""The JSON files of `distribute`: which settings their keys stand for.

Each key is one of ours under another name. Two have nothing left to set: work is handed out and
time-outs are noticed at once, not at intervals.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from crawlfleet.errors import ConfigError

Seconds = Annotated[float, Meta(gt=0)]
Mode = Literal["master", "worker", "standalone"]
DEFAULT_MASTER: Final = "http://127.0.0.1:8000"

UNWATCHED: Final = {
    "health.cpu_limit": 1.0,
    "health.memory_limit": 1.0,
    "health.disk_free_mb": 0.0,
    "health.error_rate_limit": 1.0,
}
"""Settings that turn monitoring off: no measurement makes a node unhealthy."""


class DistributionFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All keys; what is not given stays as it is set elsewhere."""

    mode: Mode | None = None
    device_id: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    device_name: Annotated[str, Meta(max_length=200)] | None = None
    host: str | None = None
    port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    master_url: str | None = None
    concurrent_tasks: Annotated[int, Meta(ge=1)] | None = None
    task_timeout: Seconds | None = None
    max_retry_count: Annotated[int, Meta(ge=0, le=100)] | None = None
    dispatch_interval: Seconds | None = None
    load_balance_strategy: str | None = None
    heartbeat_interval: Seconds | None = None
    timeout_check_interval: Seconds | None = None
    device_timeout: Seconds | None = None
    enable_monitoring: bool | None = None
    api_key: str | None = None


_SETTINGS: Final[Mapping[str, str]] = {
    "host": "server.host",
    "port": "server.port",
    "concurrent_tasks": "worker.slots",
    "task_timeout": "distribution.task_timeout_s",
    "max_retry_count": "distribution.max_retries",
    "load_balance_strategy": "dispatch.default_strategy",
    "heartbeat_interval": "session.heartbeat_interval_s",
    "device_timeout": "session.timeout_s",
}
WITHOUT_EFFECT: Final = ("dispatch_interval", "timeout_check_interval")


def read(path: Path) -> DistributionFile:
    """The file's keys; raises `ConfigError` that names the key and what to write."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=DistributionFile)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.ValidationError as error:
        keys = ", ".join(DistributionFile.__struct_fields__)
        raise ConfigError(f"{path}: {error}; the keys are {keys}") from error
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    beat, silence = found.heartbeat_interval, found.device_timeout
    if beat is not None and silence is not None and silence <= 2 * beat:
        raise ConfigError(
            f"{path}: device_timeout ({silence:g}) must be more than twice heartbeat_interval "
            f"({beat:g}); raise it"
        )
    return found


def settings_of(file: DistributionFile) -> Iterator[tuple[str, Any]]:
    """The settings that the file stands for, by their dotted names."""
    for key, name in _SETTINGS.items():
        if (value := getattr(file, key)) is not None:
            yield name, value
    if file.enable_monitoring is False:
        yield from UNWATCHED.items()
    # One of the two alone must fit what the other is by default.
    if file.heartbeat_interval is not None and file.device_timeout is None:
        yield "session.timeout_s", max(12.0, 4 * file.heartbeat_interval)
    if file.device_timeout is not None and file.heartbeat_interval is None:
        yield "session.heartbeat_interval_s", min(3.0, file.device_timeout / 4)
