"""The program introduces itself quickly, and with examples."""

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import Result

from crawlfleet import __version__
from crawlfleet.cli.shell.program import PARTS, create_app

Run = Callable[..., Result]

HEAVY = {"aiohttp", "alembic", "numpy", "pydantic", "sqlalchemy", "starlette", "uvicorn", "uvloop"}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, child in getattr(command, "commands", {}).items():
        if hasattr(child, "commands"):
            yield from commands(child, (*path, name))
        else:
            yield (*path, name)


COMMANDS = list(commands(get_command(create_app())))


@pytest.mark.slow
@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_says_what_a_command_does_and_gives_an_example(
    path: tuple[str, ...], run: Run
) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"crawlfleet {' '.join(path)}" in result.stdout.partition("Example")[2]


def test_all_commands_are_there() -> None:
    top = {path[0] for path in COMMANDS}
    assert top >= {"up", "master", "worker", "status", "submit", "tasks", "nodes", "explain"}
    assert top >= {"config", "init", "reset", "doctor"}


def test_version(run: Run) -> None:
    assert run("--version").stdout == f"crawlfleet {__version__} (not compiled)\n"


def test_a_wrong_word_is_a_usage_error(run: Run) -> None:
    result = run("taks", "list")
    assert result.exit_code == 2
    assert "tasks" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("submit",),
        ("submit", "sleep", "--count", "0"),
        ("submit", "sleep", "--count", "2", "--file", "x"),
        ("submit", "sleep", "-p", "nothing"),
        ("submit", "--file", "/nowhere/tasks.jsonl"),
        ("tasks", "cancel"),
        ("tasks", "retry"),
        ("tasks", "priority", "task-1", "high"),
        ("crawls", "download", "task-1", "-o", "items.csv.gz"),
    ],
)
def test_wrong_use_is_told_before_anything_is_sent(arguments: tuple[str, ...], run: Run) -> None:
    assert run(*arguments, "--url", "http://127.0.0.1:9", "--key", "k").exit_code == 2


def test_without_a_fleet_commands_say_how_to_start_one(run: Run) -> None:
    result = run("status")
    assert result.exit_code == 3
    assert "crawlfleet up" in result.stderr


def commands_for(*words: str) -> set[str]:
    program: Any = get_command(create_app(words))
    return set(program.commands)


def test_a_command_that_is_named_at_once_comes_with_its_part_alone() -> None:
    assert commands_for() == {name for names in PARTS.values() for name in names}
    for names in PARTS.values():
        for name in names:
            assert commands_for(name, "--help") == set(names)


@pytest.mark.parametrize("words", [("--debug", "crawl"), ("--help",), ("crwl", "crawl")])
def test_all_commands_are_there_unless_the_first_word_is_one(words: tuple[str, ...]) -> None:
    assert commands_for(*words) == commands_for()


@pytest.mark.parametrize("words", [["--help"], ["tasks", "list", "--help"]], ids=" ".join)
def test_help_needs_no_heavy_module_and_little_time(words: list[str]) -> None:
    program = (
        "import sys; from crawlfleet.cli.shell.program import create_app\n"
        f"try: create_app({words[:-1]})({words})\n"
        "except SystemExit: print(*sorted(sys.modules))"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    modules = set(ran.stdout.splitlines()[-1].split())
    assert not modules & HEAVY
    # Processor time, since the machine may be busy with other tests.
    assert after.ru_utime - before.ru_utime < 1.0
