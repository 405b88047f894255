"""Reports of failed commands: what happened, what to do, and an exit code for scripts.

0 done · 1 refused or failed · 2 used wrongly · 3 no master answers, or none can do its work now.
"""

import errno
import re
from contextvars import ContextVar
from typing import Any, Final

import msgspec
import typer
from rich.text import Text
from typer.core import TyperGroup

from crawlfleet.cli.shell.output import message_console, printable
from crawlfleet.errors import (
    Busy,
    CrawlfleetError,
    InvalidRequest,
    MasterFailed,
    MasterUnable,
    MasterUnreachable,
    NotFound,
    Refused,
    StoreTooNew,
    StoreUnavailable,
    Unauthenticated,
)

FAILED: Final = 1
UNREACHABLE: Final = 3
DISK_FAULTS: Final = {
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EROFS: "disk_read_only",
}

_REMEDIES: Final[dict[type[CrawlfleetError], str]] = {
    MasterUnreachable: "start a fleet with `crawlfleet up`, or say where it is with --url (of "
    "`crawl`: --master) and --key; `crawlfleet doctor` looks for the cause",
    MasterUnable: "look at the master's log; once the cause is gone it goes on by itself",
    MasterFailed: "look at the master's log",
    Unauthenticated: "give a valid key with --key or CRAWLFLEET_KEY",
    Refused: "use a key with another role, or change what you ask for",
    Busy: "wait a little, then try again",
    StoreTooNew: "install the newer crawlfleet that wrote this store",
    StoreUnavailable: "once the cause is gone, try again",
}
_LISTS: Final = {
    "task": "crawlfleet tasks list",
    "task-type": "crawlfleet task-types",
    "node": "crawlfleet nodes list",
    "project": "crawlfleet projects list",
    "cluster": "crawlfleet clusters list",
    "schedule": "crawlfleet schedules list",
    "workflow": "crawlfleet workflows list",
    "run": "crawlfleet workflows runs",
    "crawl": "crawlfleet crawls list",
    "bundle": "crawlfleet bundles list",
    "secret": "crawlfleet secrets list",
    "webhook": "crawlfleet webhooks list",
    "alert": "crawlfleet alerts list",
    "key": "crawlfleet keys list",
    "join-token": "crawlfleet join-tokens list",
}


DEFECT: Final = "this is a defect; run it again as `crawlfleet --debug …` to see where"

_as_json: ContextVar[bool] = ContextVar("as_json", default=False)
"""True when the command has `--json`, so that a program reads its messages."""
_debug: ContextVar[bool] = ContextVar("debug", default=False)


class ShownError(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong, for programs."""

    kind: str
    """The name of the error, such as `not_found`; `wrong_use`, `defect`, or else `failed`."""
    message: str
    remedy: str
    exit_code: int


class Program(TyperGroup):
    """The root of all commands: turns errors into messages and exit codes."""

    def invoke(self, ctx: Any) -> Any:
        as_json = _as_json.set("--json" in ctx.args)
        debug = _debug.set(bool(ctx.params.get("debug")))
        try:
            return self._told(ctx)
        finally:
            _debug.reset(debug)
            _as_json.reset(as_json)

    def _told(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.TyperException as error:
            if not _as_json.get():
                raise
            message = error.format_message()
            say(message, "`--help` shows the flags", kind="wrong_use", code=error.exit_code)
            raise typer.Exit(error.exit_code) from None
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except CrawlfleetError as error:
            if is_debugging():
                raise
            report(error)
            raise typer.Exit(exit_code(error)) from None
        except Exception as error:
            if is_debugging():
                raise
            said = f"{type(error).__name__}: {error}"
            say(said, _remedy_of_fault(error), kind=_kind_of_fault(error))
            raise typer.Exit(FAILED) from None


def is_debugging() -> bool:
    """Return whether the command has `--debug`, so that tracebacks are shown."""
    return _debug.get()


def _remedy_of_fault(error: Exception) -> str:
    """Return the advice for an exception that no code of crawlfleet expected."""
    match _kind_of_fault(error):
        case "disk_full":
            return "make room on the disk of the data folder, or give another folder"
        case "disk_read_only":
            return (
                "its file system is read-only: make it writable again (`mount -o remount,rw`), or "
                "give another folder"
            )
    return DEFECT


def _kind_of_fault(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return DISK_FAULTS.get(number, "defect") if number is not None else "defect"


def report(error: CrawlfleetError, subject: str = "") -> None:
    """Write an error and its remedy to standard error; `subject` is the thing that it happened
    to."""
    before = f"{subject}: " if subject else ""
    kind, code = _kind(error), exit_code(error)
    if not isinstance(error, InvalidRequest):
        say(f"{before}{error}", _remedy(error), kind=kind, code=code)
    elif _as_json.get():
        remedies = "; ".join(dict.fromkeys(each.remedy for each in error.problems if each.remedy))
        say(f"{before}{error}", remedies, kind=kind, code=code)
    else:
        for problem in error.problems:
            shown = "" if problem.value is None else f" = {problem.value!r}"
            say(f"{before}{problem.field}{shown}: {problem.message}", problem.remedy)


def say(text: str, remedy: str = "", *, kind: str = "failed", code: int = FAILED) -> None:
    """Write to standard error that something is wrong; with `--json` as a line of JSON, which alone
    has the kind and the exit code."""
    if _as_json.get():
        told = ShownError(kind=kind, message=text, remedy=remedy, exit_code=code)
        typer.echo(msgspec.json.encode({"error": told}).decode(), err=True)
        return
    console = message_console()
    console.print(Text.assemble(("error:", "bold red"), " ", printable(text, lines=True)))
    if remedy:
        console.print(f"  → {printable(remedy)}", style="dim")


def say_display_lost(error: Exception, what: str) -> None:
    """Write to standard error that the progress display failed, and that `what` continues."""
    told = f"progress is not shown any more: {type(error).__name__}: {error}"
    say(told, f"{what} goes on without it; {DEFECT}", kind="defect")


def exit_code(error: CrawlfleetError) -> int:
    """Return the exit code of the command for an error."""
    return UNREACHABLE if isinstance(error, MasterUnreachable) else FAILED


def _remedy(error: CrawlfleetError) -> str:
    if isinstance(error, NotFound):
        listing = _LISTS.get(error.kind)
        return f"`{listing}` shows those that exist" if listing else ""
    return next((_REMEDIES[kind] for kind in type(error).__mro__ if kind in _REMEDIES), "")


def _kind(error: CrawlfleetError) -> str:
    """Return the error's name for programs, in snake case; for a private class that of its public
    base."""
    name = next(kind.__name__ for kind in type(error).__mro__ if not kind.__name__.startswith("_"))
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
