"""What the docs show is what the code says."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def _diagrams():
    spec = importlib.util.spec_from_file_location("diagrams", DOCS / "diagrams.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_state_diagrams_are_those_of_the_tables() -> None:
    page = (DOCS / "concepts.md").read_text()
    assert page.count("stateDiagram-v2") == 3
    assert _diagrams().drawn(page) == page, "run `make docs`"


def test_every_local_link_leads_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("examples/**/*.md")]
        for target in LINK.findall(page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []
