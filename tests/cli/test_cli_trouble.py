"""What people and scripts are told when a command fails."""

import errno
import json
import os
import socket
from collections.abc import Callable, Sequence
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner, Result

from crawlfleet.cli.shell.errors import Program
from crawlfleet.errors import (
    Conflict,
    CrawlfleetError,
    FieldProblem,
    InvalidRequest,
    MasterFailed,
    MasterUnable,
    MasterUnreachable,
    NotFound,
    Unauthenticated,
)

PROBLEMS = InvalidRequest(
    [
        FieldProblem(field="priority", value=11, message="is too high", remedy="use 1 to 10"),
        FieldProblem(field="timeout", message="is missing", remedy="give seconds"),
    ]
)


def fail(error: Exception, *flags: str, words: Sequence[str] = ()) -> Result:
    app = typer.Typer(cls=Program, pretty_exceptions_enable=False)

    @app.callback()
    def program(debug: bool = False) -> None:
        """A program."""

    @app.command()
    def go(as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
        raise error

    return CliRunner().invoke(app, [*flags, "go", *words])


@pytest.mark.parametrize(
    ("error", "code", "advice"),
    [
        (NotFound("task", "task-1"), 1, "crawlfleet tasks list"),
        (NotFound("node", "node-1"), 1, "crawlfleet nodes list"),
        (NotFound("run", "run-1"), 1, "crawlfleet workflows runs"),
        (NotFound("webhook", "pager"), 1, "crawlfleet webhooks list"),
        (NotFound("bundle", "shop"), 1, "crawlfleet bundles list"),
        (Conflict("the task is completed"), 1, ""),
        (Unauthenticated("this key is not known here"), 1, "--key"),
        (MasterUnreachable("nobody there"), 3, "crawlfleet up"),
        (MasterUnable("it answered 503: the store is away"), 3, "goes on by itself"),
        (MasterFailed("it answered 500"), 3, "look at the master's log"),
        (PROBLEMS, 1, "use 1 to 10"),
        (typer.BadParameter("no"), 2, ""),
        (typer.Exit(7), 7, ""),
    ],
)
def test_each_error_has_its_exit_code_and_advice(error: Exception, code: int, advice: str) -> None:
    result = fail(error)
    assert result.exit_code == code
    assert advice in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_a_master_that_answers_is_not_looked_for() -> None:
    assert "crawlfleet up" not in fail(MasterUnable("it answered 503: the store is away")).stderr


def test_each_field_problem_has_its_own_line() -> None:
    lines = fail(PROBLEMS).stderr.splitlines()
    assert lines == [
        "error: priority = 11: is too high",
        "  → use 1 to 10",
        "error: timeout: is missing",
        "  → give seconds",
    ]


def test_a_defect_is_called_one() -> None:
    result = fail(KeyError("x"))
    assert result.exit_code == 1
    assert "KeyError: 'x'" in result.stderr
    assert "--debug" in result.stderr


def test_read_only_disk_is_not_called_full() -> None:
    result = fail(OSError(errno.EROFS, os.strerror(errno.EROFS)))
    assert "its file system is read-only" in result.stderr
    assert "make room" not in result.stderr


def test_a_full_disk_is_no_defect() -> None:
    result = fail(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    assert "make room" in result.stderr
    assert "defect" not in result.stderr


@pytest.mark.parametrize("error", [CrawlfleetError("x"), ValueError("y")])
def test_debug_lets_the_error_through(error: Exception) -> None:
    assert fail(error, "--debug").exception is error


def test_a_command_that_finds_nobody_says_how_to_start_a_fleet(run: Callable[..., Result]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"127.0.0.1:{probe.getsockname()[1]}"
    result = run("tasks", "list", "--url", url, "--key", "k")
    assert result.exit_code == 3
    assert "did not answer" in result.stderr
    assert "crawlfleet up" in result.stderr


@pytest.mark.parametrize(
    ("error", "kind", "code", "advice"),
    [
        (NotFound("task", "task-1"), "not_found", 1, "crawlfleet tasks list"),
        (MasterUnreachable("nobody there"), "master_unreachable", 3, "crawlfleet up"),
        (PROBLEMS, "invalid_request", 1, "use 1 to 10; give seconds"),
        (KeyError("x"), "defect", 1, "--debug"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "disk_full", 1, "make room"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS)), "disk_read_only", 1, "make it writable"),
        (typer.BadParameter("no"), "wrong_use", 2, "--help"),
    ],
)
def test_a_script_that_asked_for_json_can_read_what_went_wrong(
    error: Exception, kind: str, code: int, advice: str
) -> None:
    result = fail(error, words=["--json"])
    assert result.exit_code == code
    assert result.stdout == ""
    told = json.loads(result.stderr)["error"]
    assert (told["kind"], told["exit_code"]) == (kind, code)
    assert told["message"]
    assert advice in told["remedy"]


def test_wrong_use_is_told_as_json_too() -> None:
    result = fail(KeyError("x"), words=["--json", "--strange"])
    assert result.exit_code == 2
    assert "--strange" in json.loads(result.stderr)["error"]["message"]
    assert "defect" not in result.stderr
