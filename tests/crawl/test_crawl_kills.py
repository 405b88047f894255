"""`crawlfleet crawl`, killed again and again: the same items, none twice, little asked twice."""

import os
import random
import signal
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from crawlfleet.crawl.engine.crawl import Summary
from crawlfleet.crawl.engine.engine import HAND_IN_EVERY_S, MAX_HELD_PAGES
from crawlfleet.crawl.politeness.local_limits import IN_FLIGHT
from crawlfleet.testing.known_site import Hit, ServedSite, SiteSpec
from tests.crawl.crawling import Command, lines, told, truth, visits
from tests.crawl_figures import assert_agrees, assert_summary, truth_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

KILLS = 50 if os.environ.get("CRAWLFLEET_SOAK") else 9
WRITING_S = 15.0
"""A step may wait that long for a disk and a machine that others use as well; on a quiet one it
takes some milliseconds."""
LATEST_S = HAND_IN_EVERY_S + WRITING_S
SITE = SiteSpec(pages=150 * KILLS, hosts=6, links=12, page_bytes=1500, latency_ms=60)
ARGUMENTS = ("--fast", "--concurrency", "2", "--scope", "any", "--quiet")


def start_and_kill(command: Command, site: ServedSite, requests: int) -> float | None:
    """When it was killed, with `kill -9`, after so many requests; `None`: it was done before."""
    before = len(site.hits())
    with command.start() as process:
        while len(site.hits()) - before < requests and process.poll() is None:
            time.sleep(0.005)
        if process.poll() is None:
            mates = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            at = time.time()
            _, alive = psutil.wait_procs(mates, timeout=20)
            assert not alive, "the processes of a crawl end with it"
            process.communicate()
            return at
    assert process.returncode == 0
    return None


def asked_again(hits: list[Hit], deaths: list[float]) -> dict[float, list[float]]:
    """By death: how long before it pages were visited that were visited again for its sake."""
    seen: dict[int, float] = {}
    ages: dict[float, list[float]] = {death: [] for death in deaths}
    for hit in hits:
        if hit.page >= 0 and hit.page in seen:
            before = seen[hit.page]
            death = min(death for death in deaths if death > before - 0.1)
            ages[death].append(death - before)
        seen[hit.page] = hit.at
    return ages


def summary_in(folder: Path) -> Summary:
    return msgspec.json.decode((folder / "summary.json").read_bytes(), type=Summary)


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_again_and_again_it_has_every_item_once(tmp_path: Path, workers: int) -> None:
    chance = random.Random(workers)
    with ServedSite(SITE) as site:
        command = Command(tmp_path, site.spec.url(0), *ARGUMENTS, "--workers", str(workers))
        deaths = []
        while len(deaths) < KILLS:
            died = start_and_kill(command, site, chance.randrange(SITE.pages // KILLS))
            if died is None:
                break
            deaths.append(died)
        code, said = command.run("--summary", str(tmp_path / "summary.json"))

        assert code == 0, said
        assert_summary(summary_in(tmp_path), truth_of(site, len(lines(command.output))))
        assert len(deaths) >= min(KILLS, 8)
        assert told(lines(command.output)) == truth(site.spec, range(SITE.pages))
        assert set(visits(site)) == set(range(SITE.pages))
        assert [path.name for path in command.output.parent.iterdir()] == ["items.jsonl"]
        again = asked_again(site.hits(), deaths)
        assert max(age for ages in again.values() for age in [0.0, *ages]) <= LATEST_S
        counts = [len(ages) for ages in again.values()]
        assert max(counts) <= workers * (MAX_HELD_PAGES + 2 * IN_FLIGHT)
        print(
            f"\n{workers} workers, {len(deaths)} deaths: {sum(counts)} of {SITE.pages} pages were "
            f"visited again, at most {max(counts)} for one death"
        )


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_crawl_says_so_and_goes_on(tmp_path: Path, workers: int) -> None:
    spec = SiteSpec(pages=600, hosts=4, links=12, page_bytes=1500, latency_ms=80)
    with ServedSite(spec) as site:
        command = Command(tmp_path, site.spec.url(0), *ARGUMENTS[:-1], "--workers", str(workers))
        codes = []
        for _ in range(3):
            with command.start("--summary", str(tmp_path / "summary.json")) as process:
                before = len(site.hits())
                while len(site.hits()) < before + 40 and process.poll() is None:
                    time.sleep(0.02)
                process.send_signal(signal.SIGINT)
                said, _ = process.communicate(timeout=60)
            codes.append(process.returncode)
            assert "the same command goes on from here" in said
            interrupted = summary_in(tmp_path)
            assert_agrees(interrupted, len(lines(command.output)))
            assert interrupted.requests <= len(site.hits())
        code, said = command.run("--summary", str(tmp_path / "summary.json"))

        assert codes == [130, 130, 130]
        assert code == 0
        assert "going on with" in said
        assert told(lines(command.output)) == truth(site.spec, range(spec.pages))
        assert_summary(summary_in(tmp_path), truth_of(site, len(lines(command.output))))
        most = 3 * spec.hosts * 2  # what was in flight is broken off and asked for again
        assert sum(visits(site).values()) <= spec.pages + most


def test_a_mate_that_is_killed_costs_nothing(tmp_path: Path) -> None:
    spec = SiteSpec(pages=1200, hosts=6, links=12, page_bytes=1500, latency_ms=60)
    with ServedSite(spec) as site:
        command = Command(tmp_path, site.spec.url(0), *ARGUMENTS, "--workers", "2")
        killed = 0
        with command.start("--summary", str(tmp_path / "summary.json")) as process:
            while process.poll() is None and killed < 6:
                time.sleep(0.7)
                mates = psutil.Process(process.pid).children() if process.poll() is None else []
                if mates and site.hits():
                    mates[killed % len(mates)].kill()
                    killed += 1
            said, _ = process.communicate(timeout=120)

        assert process.returncode == 0, said
        assert killed >= 2
        assert_summary(summary_in(tmp_path), truth_of(site, len(lines(command.output))))
        assert told(lines(command.output)) == truth(site.spec, range(spec.pages))
