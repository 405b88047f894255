"""Every route can be used from the command line, or there is a reason why not."""

from typing import Any

from typer.main import get_command

from crawlfleet.api.app import ROUTES
from crawlfleet.api.http.routing import NODES
from crawlfleet.cli.shell.program import create_app

OF_ANOTHER_API = "/api/distribution/"
"""For those who know that API alone; `nodes` and `tasks` do the same."""


def exists(command: Any, words: list[str]) -> bool:
    for word in words:
        command = getattr(command, "commands", {}).get(word)
    return command is not None and not getattr(command, "commands", {})


def test_every_route_has_a_command_or_a_reason() -> None:
    for route in ROUTES:
        is_for_people = route.roles != NODES and not route.path.startswith(OF_ANOTHER_API)
        assert bool(route.command) + bool(route.no_command) == is_for_people, route.name


def test_every_command_is_there() -> None:
    program = get_command(create_app())
    commands = {route.command for route in ROUTES if route.command}
    assert len(commands) > 100
    assert [path for path in commands if not exists(program, path.split())] == []
