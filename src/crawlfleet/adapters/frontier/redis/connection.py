"""The connection to a Redis: scripts and commands, retries, and the meaning of errors.

It needs plain Redis 6.2 or newer, without modules. The server must keep what it acknowledges: with
`appendfsync everysec` it answers up to two seconds before the disk has it.
"""

import asyncio
import hashlib
from collections.abc import Coroutine, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
from redis import asyncio as aio
from redis import exceptions
from redis.asyncio.cluster import RedisCluster

from crawlfleet.adapters.redis import check_version, shown
from crawlfleet.errors import ConfigError, FrontierLost, StoreUnavailable

ANSWER_S: Final = 30.0
PATIENCE_S: Final = 20.0
"""Seconds for which a Redis that was open may be away, for example to restart."""
FIRST_PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 1.0
SILENCE: Final = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.BusyLoadingError,
    exceptions.RedisClusterException,
    exceptions.ClusterError,
    OSError,
)
CONNECT_S: Final = 5.0
AT_A_LOOK: Final = 1000
AT_ONCE: Final = 16
"""Commands on their way, each on a connection of its own."""
NEEDED: Final = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}
EVICTING: Final = "allkeys"
LOST: Final = "CRAWLFLEET_LOST"

_pack: Final = msgspec.msgpack.Encoder().encode


@cache
def script(*names: str) -> tuple[str, str]:
    """The text of the scripts of these names, one after another, and its hash."""
    folder = files("crawlfleet.adapters.frontier.redis") / "lua"
    text = "\n".join((folder / f"{name}.lua").read_text(encoding="utf-8") for name in names)
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def split_url(url: str, ours: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The URL for the driver, and those of its parameters that are ours."""
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    mine = {name: given.pop(name) for name in ours if name in given}
    return urlunsplit(parts._replace(query=urlencode(given))), mine


class Line:
    """A Redis, asked by scripts. Raises `StoreUnavailable` when it does not answer."""

    def __init__(self, url: str) -> None:
        self.name = shown(url)
        self._url = url
        self._client: aio.Redis | RedisCluster | None = None
        self._doors = asyncio.Semaphore(AT_ONCE)
        self._under_way: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Connect; raises `ConfigError` if the server may lose its data."""
        options: dict[str, Any] = {
            "protocol": 2,
            "socket_timeout": ANSWER_S,
            "socket_connect_timeout": CONNECT_S,
        }
        try:
            self._client = aio.Redis.from_url(self._url, **options)
        except ValueError as error:
            raise ConfigError(f"the frontier {self.name} is no URL of a Redis: {error}") from error
        try:
            about = await self._do("INFO")
            if about.get("cluster_enabled"):
                await self._client.aclose()
                self._client = RedisCluster.from_url(self._url, **options)
                await self._apart(self._initialised(self._client))
                for node in self._client.get_primaries():
                    await self._check(await self._do("INFO", target_nodes=node), target_nodes=node)
            else:
                await self._check(about)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        client, self._client = self._client, None
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=CONNECT_S)
        if client is not None:
            await client.aclose()

    async def ask(self, names: Sequence[str], key: str, words: Mapping[str, Any]) -> Any:
        """Run a script and return its result; its text is sent when the server does not have it."""
        text, digest = script(*names)
        packed = _pack(words)
        try:
            return await self.command("EVALSHA", digest, 1, key, packed)
        except exceptions.NoScriptError:
            return await self.command("EVAL", text, 1, key, packed)

    async def command(self, *words: Any) -> Any:
        """Run a single command and return its result. A command without an answer is repeated for a
        while: all commands here may be repeated.
        """
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + PATIENCE_S, FIRST_PAUSE_S
        while True:
            try:
                return await self._do(*words)
            except StoreUnavailable as error:
                silent = isinstance(error.__cause__, SILENCE)
                if not silent or self._client is None or loop.time() + pause > until:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE_S)

    async def remove(self, prefix: str, *, suffix: str = "") -> int:
        """Remove all keys that begin and end so, on every node; how many there were."""
        before, after = (
            "".join(f"\\{each}" if each in "*?[]\\" else each for each in text)
            for text in (prefix, suffix)
        )
        pattern = f"{before}*{after}"
        client, removed = self._client, 0
        nodes = client.get_primaries() if isinstance(client, RedisCluster) else [None]
        for node in nodes:
            options = {} if node is None else {"target_nodes": node}
            cursor = 0
            while True:
                words = ("SCAN", cursor, "MATCH", pattern, "COUNT", AT_A_LOOK)
                cursor, keys = await self._do(*words, **options)
                if isinstance(cursor, dict):  # by nodes, though only one was asked
                    (cursor,) = cursor.values()
                for key in keys:
                    removed += await self._do("UNLINK", key)
                if not int(cursor):
                    break
        return removed

    async def _do(self, *words: Any, **options: Any) -> Any:
        client = self._client
        if client is None:
            raise StoreUnavailable(f"the frontier {self.name} is closed; open it first")
        try:
            async with self._doors:
                return await self._apart(client.execute_command(*words, **options))
        except exceptions.NoScriptError:
            raise
        except exceptions.ResponseError as error:
            raise self._explained(error) from error
        except (exceptions.RedisError, OSError) as error:
            raise StoreUnavailable(
                f"the frontier {self.name} does not answer: {error or type(error).__name__}; check "
                "that this Redis runs and can be reached from here"
            ) from error

    async def _apart(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run `work` in a task of its own, to the end: the driver may lose a cancellation, so that
        a waiting caller could not be stopped; and a connection that was left in the middle of an
        answer is of no use.
        """
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # is told to whoever waits

    def _explained(self, error: exceptions.ResponseError) -> Exception:
        said = str(error)
        if LOST in said:
            return self.lost(said.partition(LOST)[2].split()[0])
        if isinstance(error, exceptions.OutOfMemoryError) or said.startswith("OOM"):
            return StoreUnavailable(
                f"the frontier {self.name} is out of memory, and nothing was changed: raise its "
                "maxmemory, or give the machine more"
            )
        return StoreUnavailable(f"the frontier {self.name} refused: {said}")

    def lost(self, how: str) -> FrontierLost:
        """Return the error for the books of a crawl: gone (`none`, `other`) or older (`back`)."""
        what = {
            "none": "has nothing of this crawl any more: it was emptied, or restored",
            "other": "has another crawl under the same name: it was emptied and begun anew",
            "back": "has gone back to an earlier state: it was restored, or lost what it had",
        }[how]
        return FrontierLost(
            f"the frontier {self.name} {what}. What was visited is not known any more, so the "
            "crawl cannot go on: begin it again, and let this Redis keep what it is given "
            "(appendonly yes, appendfsync always, no eviction, no failover to a replica)"
        )

    async def _initialised(self, client: RedisCluster) -> None:
        await client.initialize()

    async def _check(self, about: Mapping[str, Any], **options: Any) -> None:
        check_version(about, f"the frontier {self.name}")
        try:
            settings = await self._settings(**options)
        except StoreUnavailable as error:
            if isinstance(error.__cause__, SILENCE):
                raise
            raise ConfigError(
                f"the frontier {self.name} does not say whether it keeps what it is given: allow "
                f"the user of this URL the command CONFIG GET ({error})"
            ) from error
        wrong = {name: value for name, value in NEEDED.items() if settings.get(name) != value}
        if wrong:
            remedy = "; ".join(f"CONFIG SET {name} {value}" for name, value in wrong.items())
            raise ConfigError(
                f"the frontier {self.name} may lose what it has acknowledged ("
                + ", ".join(f"{name} is {settings.get(name) or 'unknown'}" for name in wrong)
                + f"). Tell it: {remedy}; and write the same into its redis.conf"
            )
        policy = settings.get("maxmemory-policy", "")
        if policy.startswith(EVICTING):
            raise ConfigError(
                f"the frontier {self.name} drops keys when its memory is full (maxmemory-policy is "
                f"{policy}). Tell it: CONFIG SET maxmemory-policy noeviction; "
                "and write the same into its redis.conf"
            )

    async def _settings(self, **options: Any) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in (*NEEDED, "maxmemory-policy"):
            answer = await self._do("CONFIG", "GET", name, **options)
            if answer:
                found[name] = answer[1].decode()
        return found
