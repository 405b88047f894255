"""Draws the state diagrams of `concepts.md` from the tables in the code: `make docs`."""

import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from crawlfleet.core.tasks.lifecycle import (
    EXECUTION_TRANSITIONS,
    NODE_TRANSITIONS,
    TASK_TRANSITIONS,
)

PAGE = Path(__file__).with_name("concepts.md")
TABLES: Mapping[str, Mapping[Any, StrEnum]] = {
    "task": TASK_TRANSITIONS,
    "execution": EXECUTION_TRANSITIONS,
    "node": NODE_TRANSITIONS,
}
FIRST = {"task": ("waiting", "pending"), "execution": ("assigned",), "node": ("pending",)}


def diagram(name: str) -> str:
    """The table of a kind of thing as a Mermaid state diagram."""
    table = TABLES[name]
    lines = [f"    [*] --> {state}" for state in FIRST[name]]
    for (source, trigger), target in table.items():
        lines.append(f"    {source} --> {target}: {trigger}")
    sources = {source for source, _ in table}
    ends = dict.fromkeys(target for target in table.values() if target not in sources)
    lines += [f"    {state} --> [*]" for state in ends]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def drawn(page: str) -> str:
    """The page with all its diagrams drawn anew."""
    for name in TABLES:
        marked = re.compile(rf"(<!-- states:{name} -->\n).*?(<!-- /states -->)", re.DOTALL)
        picture = diagram(name)
        page = marked.sub(lambda found, new=picture: f"{found[1]}{new}\n{found[2]}", page)
    return page


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
    sys.exit(0)
