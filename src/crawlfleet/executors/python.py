"""`python`: runs a function of the user's.

Which functions may run is the node's decision, not the submitter's: a function is either listed
in `worker.python_allow`, or registered with `@task` by a module in `worker.python_modules`.
"""

import asyncio
import importlib
import inspect
import logging
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

import msgspec

from crawlfleet.errors import CrawlfleetError, PluginError
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import Context
from crawlfleet.ports.locks import Lock

EXIT_CANCELLED: Final = 75
PROGRESS_INTERVAL_S: Final = 0.1

F = TypeVar("F", bound=Callable[..., Any])


class _Present:
    """The current execution, as seen by its function and that function's threads."""

    __slots__ = ("context", "loop", "reported_at")

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self.context = context
        self.loop = loop
        self.reported_at = float("-inf")


_present: ContextVar[_Present | None] = ContextVar("present", default=None)
_telling: set[asyncio.Task[None]] = set()
_LEVELS: Final = {
    "DEBUG": "debug",
    "WARNING": "warning",
    "ERROR": "error",
    "CRITICAL": "error",
}
_registered: dict[str, Callable[..., Any]] = {}
_is_async = lru_cache(maxsize=1024)(inspect.iscoroutinefunction)


class FunctionRefused(CrawlfleetError):
    """The node does not run this function; the message names the remedy."""

    error_class = ErrorClass.INVALID


def task(name: str) -> Callable[[F], F]:
    """Register a function, so that `{"function": name}` runs it.

    The module has to be listed in `worker.python_modules` on the nodes that shall offer it.
    """

    def register(function: F) -> F:
        other = _registered.setdefault(name, function)
        if _path(other) != _path(function):
            raise PluginError(
                f"the task name {name!r} is used twice, by {_path(other)} and {_path(function)};"
                " rename one of them"
            )
        _registered[name] = function
        return function

    return register


def log(message: str, *, level: str = "info", **fields: Any) -> None:
    """Write a line to the log of the current execution, from any function or thread."""
    _tell(lambda context: context.log(message, level=level, **fields))


def progress(done: float, total: float | None = None) -> None:
    """Report the progress of the current execution."""
    present = _here()
    now = time.monotonic()
    # A loop that reports each step shall not wait at each.
    if done == total or now - present.reported_at >= PROGRESS_INTERVAL_S:
        present.reported_at = now
        _tell(lambda context: context.progress(done, total))


def lock(name: str, *, lease_s: float = 30.0, wait_s: float | None = None) -> Lock:
    """Return a fleet-wide lock for `async with` in an `async def` function: one execution of the
    project holds it at a time. See `crawlfleet.ports.locks`."""
    return _here().context.lock(name, lease_s=lease_s, wait_s=wait_s)


class _Forward(logging.Handler):
    """Forwards records of Python's logging to the log of the execution."""

    def emit(self, record: logging.LogRecord) -> None:
        if _present.get() is None:
            logging.lastResort.handle(record)  # type: ignore[union-attr]
            return
        try:
            text = self.format(record)
            log(text, level=_LEVELS.get(record.levelname, "info"), logger=record.name)
        except Exception:
            self.handleError(record)


_forward: Final = _Forward()


class PythonParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    function: Annotated[str, msgspec.Meta(examples=["shop.prices:refresh"])]
    """`package.module:function`, or the name that `@task` gave it. The node must allow it."""
    args: list[Any] = []
    """Positional arguments of the function."""
    kwargs: dict[str, Any] = {}
    """Keyword arguments of the function."""


class Python:
    """Async functions run on the loop, others in a thread."""

    Parameters: ClassVar[type[msgspec.Struct]] = PythonParameters

    def __init__(self, *, allow: Iterable[str], modules: Iterable[str]) -> None:
        self._allow = tuple(allow)
        self._modules = tuple(modules)
        self._functions: dict[str, Callable[..., Any]] = {}

    @classmethod
    def from_settings(cls, settings: WorkerSettings) -> Self:
        return cls(allow=settings.python_allow, modules=settings.python_modules)

    async def run(self, parameters: PythonParameters, context: Context) -> Any:
        _present.set(_Present(context, asyncio.get_running_loop()))
        _forward_logging()
        name = parameters.function
        if name not in self._functions:
            self._functions[name] = self._imported(name) if ":" in name else self._named(name)
        function = self._functions[name]
        _check_arguments(name, function, parameters)
        if _is_async(function):
            value = await function(*parameters.args, **parameters.kwargs)
            if _telling:
                # What it said last is on its way: let it go before the result.
                await asyncio.sleep(0)
            return value
        return await _in_thread(function, parameters.args, parameters.kwargs)

    def _named(self, name: str) -> Callable[..., Any]:
        for module in self._modules:
            _import(module)
        if name not in _registered:
            known = ", ".join(sorted(_registered)) or "none"
            raise FunctionRefused(
                f"no function is registered as {name!r} (registered: {known}); mark it with"
                f' `@task("{name}")` and list its module in `worker.python_modules` of the node,'
                " or give `package.module:function`"
            )
        return _registered[name]

    def _imported(self, path: str) -> Callable[..., Any]:
        if not allowed(path, self._allow):
            raise _refusal(path)
        module, _, name = path.partition(":")
        function = getattr(_import(module), name, None)
        if not callable(function):
            raise FunctionRefused(f"module {module!r} has no function {name!r}; correct `function`")
        # A pattern stands for what a package defines, not for what its modules happen to import.
        if path not in self._allow and not allowed(_path(function), self._allow):
            raise _refusal(path)
        return function  # type: ignore[no-any-return]


def allowed(path: str, patterns: Iterable[str]) -> bool:
    """Return true if `package.module:function` matches a pattern: `package.module:function`,
    `package.module:*` or `package.*`. Patterns do not match names that begin with an underscore."""
    module, _, name = path.partition(":")
    if not name.isidentifier():
        return False
    for pattern in patterns:
        if pattern == path:
            return True
        if name.startswith("_"):
            continue
        if pattern == f"{module}:*":
            return True
        if pattern.endswith(".*") and f"{module}.".startswith(pattern[:-1]):
            return True
    return False


def _refusal(path: str) -> FunctionRefused:
    return FunctionRefused(
        f"this node does not run {path!r}; add it, or a pattern such as"
        f" {path.partition(':')[0] + ':*'!r}, to `worker.python_allow` of the node"
    )


def _here() -> _Present:
    present = _present.get()
    if present is None:
        raise RuntimeError("this is not called in an execution of the executor `python`")
    return present


def _tell(say: Callable[[Context], Coroutine[Any, Any, None]]) -> None:
    present = _here()
    loop = present.loop
    try:
        on_loop = asyncio.get_running_loop() is loop
    except RuntimeError:
        on_loop = False
    if on_loop:
        telling = loop.create_task(say(present.context))
        _telling.add(telling)
        telling.add_done_callback(_telling.discard)
    else:
        # Waits for its turn, so that a loop of lines cannot outrun the pipe.
        asyncio.run_coroutine_threadsafe(say(present.context), loop).result()


def _forward_logging() -> None:
    root = logging.root
    if _forward not in root.handlers:
        root.addHandler(_forward)
        if root.level == logging.WARNING:  # as Python leaves it; what else was set stays
            root.setLevel(logging.INFO)


def _path(function: Callable[..., Any]) -> str:
    return f"{function.__module__}:{getattr(function, '__name__', '')}"


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except Exception as error:
        raise PluginError(
            f"the module {module!r} cannot be imported on this node:"
            f" {type(error).__name__}: {error}"
        ) from error


def _check_arguments(name: str, function: Callable[..., Any], parameters: PythonParameters) -> None:
    if misfit := _misfit(function, len(parameters.args), tuple(parameters.kwargs)):
        raise FunctionRefused(
            f"the arguments do not fit {name}{misfit}; correct `args` and `kwargs`"
        )


@lru_cache(maxsize=1024)
def _misfit(function: Callable[..., Any], positional: int, named: tuple[str, ...]) -> str:
    """Return the reason why these arguments do not fit a function; empty when they do."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions written in C have none
        return ""
    try:
        signature.bind(*range(positional), **dict.fromkeys(named))
    except TypeError as error:
        return f"{signature}: {error}"
    return ""


async def _in_thread(
    function: Callable[..., Any], args: Iterable[Any], kwargs: Mapping[str, Any]
) -> Any:
    def call() -> tuple[Any, BaseException | None]:
        # An exception as a value: a future cannot carry StopIteration.
        try:
            return function(*args, **kwargs), None
        except BaseException as error:
            return None, error

    try:
        value, error = await asyncio.to_thread(call)
    except asyncio.CancelledError:
        # Nothing can stop a thread but the end of its process; the pool starts another one.
        os._exit(EXIT_CANCELLED)
    if error is not None:
        raise error
    return await value if inspect.isawaitable(value) else value
