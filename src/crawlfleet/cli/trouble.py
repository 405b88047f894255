"""What people see when a command fails: what happened, what to do, and an exit code for scripts.

0 done · 1 refused or failed · 2 used wrongly · 3 no master answers, or
none can do its work now.
"""

import errno
from typing import Any, Final

import typer
from rich.text import Text
from typer.core import TyperGroup

from crawlfleet.cli.output import message_console, printable
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
DISK_TAKES_NOTHING: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})

_REMEDIES: Final[dict[type[CrawlfleetError], str]] = {
    MasterUnreachable: "start a fleet with `crawlfleet up`, or say where it is with --url (of "
    "`crawl`: --master) and --key; `crawlfleet doctor` looks for the cause",
    MasterUnable: "look at the master's log; once the cause is gone it goes on by itself",
    MasterFailed: "look at the master's log",
    Unauthenticated: "give a valid key with --key or CRAWLFLEET_KEY",
    Refused: "use a key with another role, or change what you ask for",
    Busy: "wait a little, then try again",
    StoreTooNew: "install the newer crawlfleet that wrote this store",
    StoreUnavailable: "look at the master's log and the disk, then try again",
}
_LISTS: Final = {
    "task": "crawlfleet tasks list",
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


class Program(TyperGroup):
    """The root of all commands: turns errors into messages and exit codes."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.TyperException, typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except CrawlfleetError as error:
            if ctx.params.get("debug"):
                raise
            report(error)
            raise typer.Exit(exit_code(error)) from None
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            say(f"{type(error).__name__}: {error}", _remedy_of_fault(error))
            raise typer.Exit(FAILED) from None


def _remedy_of_fault(error: Exception) -> str:
    """What to do about something that no code of ours expected."""
    if isinstance(error, OSError) and error.errno in DISK_TAKES_NOTHING:
        return "make room on the disk of the data folder, or give another folder"
    return "this is a defect; run it again as `crawlfleet --debug …` to see where"


def report(error: CrawlfleetError, subject: str = "") -> None:
    """Write to standard error what happened and what to do; `subject` is what it happened to."""
    before = f"{subject}: " if subject else ""
    if isinstance(error, InvalidRequest):
        for problem in error.problems:
            shown = "" if problem.value is None else f" = {problem.value!r}"
            say(f"{before}{problem.field}{shown}: {problem.message}", problem.remedy)
    else:
        say(f"{before}{error}", _remedy(error))


def say(text: str, remedy: str = "") -> None:
    """Write to standard error that something is wrong."""
    console = message_console()
    console.print(Text.assemble(("error:", "bold red"), " ", printable(text, lines=True)))
    if remedy:
        console.print(f"  → {printable(remedy)}", style="dim")


def exit_code(error: CrawlfleetError) -> int:
    """What a script is told."""
    return UNREACHABLE if isinstance(error, MasterUnreachable) else FAILED


def _remedy(error: CrawlfleetError) -> str:
    if isinstance(error, NotFound):
        listing = _LISTS.get(error.kind)
        return f"`{listing}` shows those that exist" if listing else ""
    return next((_REMEDIES[kind] for kind in type(error).__mro__ if kind in _REMEDIES), "")
