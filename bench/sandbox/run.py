"""`python -m bench.sandbox`: whether a cell's limits hold, what it costs, and what it leaves.

At the highest level that this machine has, as the user that runs it; root has the most.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from tests.support.cells import (
    CpuShare,
    DownloadRate,
    MemoryDeath,
    cpu_shares,
    download,
    memory_at_death,
    offer_of,
    sandbox_in,
    tree_gone_s,
)
from tests.support.confined_pool import Residue, measure_residue

from bench.machine import Machine, add_wait, await_quiet, machine
from bench.sandbox.starts import Starts, measure_starts
from bench.sheets import Sheet, show
from crawlfleet.model.isolation import Isolation, Layer

CORES: Final = (0.5, 0.25)
TREE: Final = 50
MEGABYTE: Final = 1_000_000
DOWNLOADS: Final = ((8.0, 1), (8.0, 4), (40.0, 5), (40.0, 20), (160.0, 20), (160.0, 80))
"""Megabits a second, and megabytes."""
GROUPS: Final = {Layer.CGROUP_V1, Layer.CGROUP_V2}


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    when: str
    cells: list[CpuShare]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    level: str
    layers: list[str]
    memory: list[MemoryDeath]
    cpu: list[Shares]
    """None where the level does not bound CPU time."""
    bandwidth: list[DownloadRate]
    tree_gone_s: list[float]
    starts: Starts
    residue: Residue


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.sandbox", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter, in 30 s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    add_wait(parser)
    options = parser.parse_args(arguments)
    console = Console()
    about = machine(await_quiet(options.wait, console))
    offer = offer_of()
    with tempfile.TemporaryDirectory(prefix="bench-sandbox-") as folder:
        found = asyncio.run(_measure(Path(folder), offer, about, console, quick=options.quick))
    show(sheets(found), console)
    console.print(about.load)
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")


async def _measure(
    folder: Path, offer: Isolation, about: Machine, console: Console, *, quick: bool
) -> Figures:
    async with sandbox_in(folder / "limits", offer) as sandbox:
        console.print(f"memory ({offer.level})")
        memory = [await memory_at_death(sandbox, each) for each in (64, 128, 256)]
        cpu: list[Shares] = []
        if GROUPS & set(offer.layers):
            seconds = 2.0 if quick else 10.0
            console.print("CPU time")
            alone = [(await cpu_shares(sandbox, [each], seconds=seconds))[0] for each in CORES]
            cpu.append(Shares(when="one after the other", cells=alone))
            beside = await cpu_shares(sandbox, CORES, seconds=seconds)
            cpu.append(Shares(when="side by side", cells=beside))
            busy = await cpu_shares(sandbox, CORES, seconds=seconds, outside=about.cores)
            when = f"side by side, {about.cores} processes outside want a core each"
            cpu.append(Shares(when=when, cells=busy))
        console.print("bandwidth")
        sizes = DOWNLOADS[::2] if quick else DOWNLOADS
        rates = [await download(sandbox, mbps=mbps, size=size * MEGABYTE) for mbps, size in sizes]
        console.print("the end of a tree")
        gone = [await tree_gone_s(sandbox, TREE) for _ in range(2 if quick else 10)]
    console.print("starts")
    starts = await measure_starts(folder / "starts", offer, 40 if quick else 300)
    console.print("what is left")
    residue = await measure_residue(folder / "residue", offer, 60 if quick else 1_000)
    return Figures(
        machine=about,
        level=str(offer.level),
        layers=[str(each) for each in offer.layers],
        memory=memory,
        cpu=cpu,
        bandwidth=rates,
        tree_gone_s=gone,
        starts=starts,
        residue=residue,
    )


def sheets(found: Figures) -> list[Sheet]:
    """The figures as tables, for the terminal and for the page."""
    made = [
        Sheet(
            "A process that takes memory without end, in steps of a megabyte",
            ("limit", "held when last heard of", "counted by the group", "what was said"),
            [
                (
                    f"{each.limit_mb:g} MB",
                    f"{each.resident_mb:.0f} MB",
                    f"{each.counted_mb:.0f} MB" if each.counted_mb else "",
                    each.reason,
                )
                for each in found.memory
            ],
        ),
    ]
    if found.cpu:
        made.append(
            Sheet(
                "CPU time of cells with two busy processes each, in cores",
                ("", *(f"given {each:g}" for each in CORES), "furthest from it"),
                [
                    (
                        each.when,
                        *(f"{cell.measured:.3f}" for cell in each.cells),
                        f"{max((_off(cell) for cell in each.cells), key=abs):+.1%}",
                    )
                    for each in found.cpu
                ],
            )
        )
    gone = [each * 1e3 for each in found.tree_gone_s]
    residue = found.residue
    left = ", ".join(f"{len(each)} {name}" for name, each in residue.left.items()) or "nothing"
    made += [
        Sheet(
            "Downloads through the agent's proxy",
            ("size", "given", "measured", "off by"),
            [
                (
                    f"{each.bytes / MEGABYTE:g} MB",
                    f"{each.given:g} Mbit/s",
                    f"{each.measured:.1f} Mbit/s",
                    f"{_off(each):+.1%}",
                )
                for each in found.bandwidth
            ],
        ),
        _of_starts(found.starts),
        Sheet(
            "The end",
            ("", "measured"),
            (
                (
                    f"{TREE} processes that ignore all signals, gone after: median, longest",
                    f"{sorted(gone)[len(gone) // 2]:.0f}, {max(gone):.0f} ms",
                ),
                (f"left by {residue.executions:,} executions in {residue.seconds:.0f} s", left),
            ),
        ),
    ]
    return made


def _of_starts(starts: Starts) -> Sheet:
    pooled, confined, stages = starts.pooled, starts.confined, starts.stages
    rows = (("in the pool", pooled), ("in a cell", confined), ("in one made ahead", starts.ahead))
    return Sheet(
        f"A function that does nothing, one after another, {starts.executions} times",
        ("", "median", "p95", "CPU"),
        (
            *(
                (name, f"{each.p50_ms:.1f} ms", f"{each.p95_ms:.1f} ms", _cpu(each.cpu_ms))
                for name, each in rows
            ),
            (
                "the cell's own cost",
                f"{confined.p50_ms - pooled.p50_ms:.1f} ms",
                f"{confined.p95_ms - pooled.p95_ms:.1f} ms",
                "",
            ),
            ("of which: made, with all layers", f"{stages.made_ms:.1f} ms", "", ""),
            ("until it is ready", f"{stages.ready_ms:.1f} ms", "", ""),
            ("the work", f"{stages.work_ms:.1f} ms", "", ""),
            ("cleared away, afterwards", f"{stages.cleared_ms:.1f} ms", "", ""),
        ),
    )


def _cpu(spent_ms: float | None) -> str:
    return "" if spent_ms is None else f"{spent_ms:.1f} ms"


def _off(found: CpuShare | DownloadRate) -> float:
    return found.measured / found.given - 1


if __name__ == "__main__":
    main()
