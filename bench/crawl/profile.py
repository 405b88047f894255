"""Where crawlfleet's CPU goes for each page: `python -m bench.crawl --profile`."""

import subprocess
from pathlib import Path

import msgspec

from bench.crawl.crawlers import OUR_OPTIONS
from bench.crawl.turn import Place, cores, environment
from bench.peers import PLAIN_PYTHON


class Share(msgspec.Struct, frozen=True, kw_only=True):
    part: str
    us_a_page: float


def profiled(place: Place, folder: Path) -> list[Share]:
    """Crawl the site once; what each part took, the dearest first. Not compiled: nobody sees from
    outside which compiled function runs."""
    folder.mkdir(parents=True)
    found = folder / "profile.json"
    command = [str(PLAIN_PYTHON), "-m", "bench.crawl.sampler", str(found)]
    command += ["crawl", place.spec.url(0), *OUR_OPTIONS, "--output", str(folder / "items.jsonl")]
    taskset = ["taskset", "--cpu-list", str(min(cores()[1]))]
    subprocess.run([*taskset, *command], env=environment(), check=True, stdout=subprocess.DEVNULL)
    spent = msgspec.json.decode(found.read_bytes(), type=dict[str, float])
    shares = [
        Share(part=part, us_a_page=seconds / place.spec.pages * 1e6)
        for part, seconds in sorted(spent.items(), key=lambda pair: -pair[1])
    ]
    return [each for each in shares if each.us_a_page >= 0.05]
