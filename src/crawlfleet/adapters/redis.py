"""Connections to Redis, and checks of its settings before anything is entrusted to it."""

from collections.abc import Awaitable, Mapping
from importlib.resources import files
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit, urlunsplit

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as TimedOut

from crawlfleet.errors import ConfigError

T = TypeVar("T")
ANSWER_S: Final = 5.0
RETRIES: Final = 4
OLDEST: Final = (6, 2)


def connect(url: str) -> Redis:
    """A client with a pool of connections; everything that is sent may be sent twice."""
    try:
        return Redis.from_url(
            url,
            decode_responses=True,
            socket_timeout=ANSWER_S,
            socket_connect_timeout=ANSWER_S,
            retry=Retry(ExponentialBackoff(cap=0.5, base=0.02), RETRIES),
            retry_on_error=[NotConnected, TimedOut],
        )
    except ValueError as error:
        raise ConfigError(f"{shown(url)} is no URL of a Redis: {error}") from None


async def opened(url: str) -> Redis:
    """A client of a Redis that promises enough. Raises `ConfigError` and `RedisError`."""
    client = connect(url)
    try:
        await check_durable(client, url)
    except BaseException:
        await client.aclose()
        raise
    return client


def shown(url: str) -> str:
    """Return the URL without secrets."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


def check_version(told: Mapping[str, Any], name: str) -> None:
    """Raise `ConfigError` unless a Redis is new enough by its own information."""
    version = str(told.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ConfigError(f"{name} is Redis {version}, and has to be {oldest} or newer")


def script(package: str, name: str) -> str:
    """The text of a Lua script that lies in a package."""
    return files(package).joinpath(f"{name}.lua").read_text("utf-8")


async def answer(of: Any) -> Any:
    """Await the result of a command: the library's types do not say that it is awaitable."""
    return await cast("Awaitable[Any]", of)


async def check_durable(client: Redis, url: str) -> None:
    """Raise `ConfigError` unless acknowledged writes survive a restart of the server."""
    told = await answer(client.info())
    check_version(told, shown(url))
    if not int(told.get("aof_enabled", 0)):
        raise ConfigError(
            f"the Redis {shown(url)} forgets at a restart what it has acknowledged; "
            "set `appendonly yes` there"
        )
    if told.get("maxmemory_policy", "noeviction") != "noeviction":
        raise ConfigError(
            f"the Redis {shown(url)} throws away what it has acknowledged when its memory is full "
            f"(maxmemory-policy is {told['maxmemory_policy']}); set `maxmemory-policy noeviction`"
        )


__all__ = ["Redis", "RedisError", "answer", "check_version", "opened", "script", "shown"]
