"""The page in the package is the one that its sources give, and its sources are in order."""

import filecmp
import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import crawlfleet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("dashboard")]
ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "dashboard"
BUILT = Path(crawlfleet.__file__).parent / "dashboard" / "dist"
MAX_BYTES = 240_000
"""Of all scripts together, packed."""


@pytest.fixture(scope="module")
def npx() -> str:
    """Where node is, with the packages of the page installed."""
    found = shutil.which("npx")
    assert found, "the dashboard is built with node 20.19 or newer, and npm; install them"
    done = subprocess.run(
        ["make", "dashboard/node_modules/.ready"], cwd=ROOT, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    return found


def run(npx: str, *words: str) -> None:
    done = subprocess.run(
        [npx, "--no-install", *words],
        cwd=SOURCES,
        env={**os.environ, "CI": "true", "NO_COLOR": "1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def files(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


def test_the_built_page_is_that_of_its_sources(npx: str, tmp_path: Path) -> None:
    run(npx, "vite", "build", "--outDir", str(tmp_path), "--emptyOutDir", "--logLevel", "error")

    built = files(tmp_path)
    same, *others = filecmp.cmpfiles(tmp_path, BUILT, built, shallow=False)
    assert built == files(BUILT), "dist/ is stale: run `make dashboard`"
    assert (same, *others) == (built, [], []), "dist/ is stale: run `make dashboard`"


def test_the_types_are_those_of_the_api(npx: str, tmp_path: Path) -> None:
    document, types = tmp_path / "openapi.json", tmp_path / "api.ts"
    script = SOURCES / "scripts" / "openapi.py"
    subprocess.run([sys.executable, str(script), str(document)], check=True, timeout=60)
    words = json.loads((SOURCES / "package.json").read_text())["scripts"]["types"].split()
    run(npx, *(_instead(word, document, types) for word in words))

    committed = SOURCES / "src" / "generated" / "api.ts"
    assert committed.read_text() == types.read_text(), "types are stale: run `make dashboard`"


def _instead(word: str, document: Path, types: Path) -> str:
    return {"generated/openapi.json": str(document), "src/generated/api.ts": str(types)}.get(
        word, word
    )


@pytest.mark.parametrize(
    "words", [("biome", "ci", "."), ("tsc", "--noEmit"), ("vitest", "run")], ids=lambda it: it[0]
)
def test_the_sources_of_the_page_are_in_order(npx: str, words: tuple[str, ...]) -> None:
    run(npx, *words)


def test_the_page_is_small() -> None:
    packed = {
        each.name: len(gzip.compress(each.read_bytes(), 9, mtime=0)) for each in BUILT.rglob("*.js")
    }
    assert 0 < sum(packed.values()) < MAX_BYTES, packed


def test_the_page_asks_no_other_host_and_has_nothing_inline() -> None:
    index = (BUILT / "index.html").read_text()
    assert "style=" not in index
    assert "<style" not in index
    for tag in index.split("<script")[1:]:
        attributes, content = tag.split(">", 1)
        assert 'src="/assets/' in attributes
        assert content.startswith("</script>")
    for each in BUILT.rglob("*.css"):
        assert "http" not in each.read_text()


def test_the_lock_names_no_registry() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    assert len(lock["packages"]) > 50
    assert not [name for name, each in lock["packages"].items() if "resolved" in each]
