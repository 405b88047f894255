"""What the docs show is what the code says."""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from crawlfleet.cli.shell.program import create_app
from crawlfleet.features.schedules.model import Outcome
from crawlfleet.features.workflows.model import SETTLED, RunStatus
from crawlfleet.model.node import NodeStatus
from crawlfleet.model.project import ClusterStatus, ProjectStatus
from crawlfleet.model.task import TaskStatus

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("examples/**/*.md")]
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")
EXAMPLE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CALL = re.compile(r"(?:^|\$ |&& |^\.venv/bin/)(?:[A-Z_]+=\S+ )*crawlfleet ([a-z][^|&>#]*)")


def _diagrams():
    spec = importlib.util.spec_from_file_location("diagrams", DOCS / "diagrams.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_state_diagrams_are_those_of_the_tables() -> None:
    page = (DOCS / "concepts.md").read_text()
    assert page.count("stateDiagram-v2") == 3
    assert _diagrams().drawn(page) == page, "run `make docs`"


def _links(page: Path) -> Iterator[tuple[Path, str]]:
    """Where a page leads to among the others: which file, and which heading of it, if any."""
    for target, anchor in LINK.findall(EXAMPLE.sub("", page.read_text("utf-8"))):
        if "://" not in target:
            yield (page.parent / target if target else page), anchor


def _anchors(page: Path) -> Iterator[str]:
    """The headings of a page as links name them."""
    for heading in re.findall(r"^#+ (.*)$", EXAMPLE.sub("", page.read_text("utf-8")), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_local_link_leads_somewhere(page: Path) -> None:
    for target, anchor in _links(page):
        assert target.exists(), f"there is no {target}"
        if anchor and target.suffix == ".md":
            assert anchor in set(_anchors(target)), f"{target} has no heading #{anchor}"


def test_the_index_names_every_page_and_decisions_in_order() -> None:
    index = DOCS / "README.md"
    named = [target.resolve() for target, _ in _links(index)]
    assert {*DOCS.glob("guides/*.md"), *DOCS.glob("reference/*.md")} <= set(named)
    assert [page for page in named if page.parent.name == "adr"] == sorted(DOCS.glob("adr/*.md"))


def test_the_page_of_events_names_every_kind() -> None:
    """Those that are written out in the code, and those made of states."""
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    kinds = set(re.findall(r"\bkind=\"([a-z]+\.[a-z_]+)\"", code))
    kinds |= {f"task.{state}" for state in TaskStatus}
    kinds |= {f"node.{state}" for state in NodeStatus if state is not NodeStatus.PENDING}
    kinds |= {f"run.{state}" for state in RunStatus} | {f"step.{state}" for state in SETTLED}
    kinds |= {f"schedule.{outcome}" for outcome in Outcome}
    kinds |= {f"project.{state}" for state in ProjectStatus}
    kinds |= {f"cluster.{state}" for state in ClusterStatus}
    page = (DOCS / "reference" / "events.md").read_text("utf-8")
    assert kinds <= set(re.findall(r"`([a-z]+\.[a-z_]+)`", page))


def test_the_guide_of_the_command_line_names_every_command() -> None:
    """In the table at its beginning: `nodes list · show`, and commands without others as they
    are."""
    page = (DOCS / "guides" / "cli.md").read_text("utf-8")
    table = re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE)
    named = set()
    for words in re.findall(r"`([a-z][^`]*)`", "\n".join(table)):
        group, _, rest = words.partition(" ")
        named |= {f"{group} {each}" for each in rest.split(" · ")} if rest else {group}
    assert set(_commands(get_command(create_app()))) <= named


def test_every_command_that_the_docs_show_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").touch()  # an example reads it
    program = get_command(create_app())
    shown = [words for page in PAGES for words in _shown(page)]
    assert len(shown) > 100
    for words in shown:
        command: Any = program
        while hasattr(command, "commands"):
            assert words[0] in command.commands, words
            command, words = command.commands[words[0]], words[1:]
        if "--help" not in words:
            command.make_context(command.name, list(words))  # raises for what it does not take


def test_every_curl_command_that_sends_something_says_that_it_is_json() -> None:
    """By itself curl says that it is a form, which is refused; and `--json` is not in every curl
    that people have."""
    sending = [
        command
        for page in PAGES
        for command in re.findall(
            r"^(?:\$ )?curl .*", page.read_text("utf-8").replace("\\\n", " "), re.MULTILINE
        )
        if re.search(r" (?:-d|--data\S*|--json) ", command)
    ]
    assert len(sending) >= 5
    for command in sending:
        assert "-H 'Content-Type: application/json'" in command or '-H "$JSON"' in command, command
        assert " --json " not in command, command


def _shown(page: Path) -> Iterator[list[str]]:
    """The words after `crawlfleet` in the examples of a page, without what follows a pipe."""
    for kind, example in re.findall(
        r"^```(console|sh|bash)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    ):
        for line in example.replace("\\\n", " ").splitlines():
            if kind == "console" and not line.startswith("$ "):
                continue
            for command in CALL.findall(line):
                yield shlex.split(command)


def _commands(command: Any, before: str = "") -> Iterator[str]:
    for name, child in command.commands.items():
        if hasattr(child, "commands"):
            yield from _commands(child, f"{before}{name} ")
        else:
            yield before + name
