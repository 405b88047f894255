"""`python -m bench.fleet`: what many nodes cost, how soon dead ones are missed, how it grows."""

import argparse
import tempfile
from pathlib import Path

import msgspec
from rich.console import Console

from bench.fleet.crowd import Idle, Loaded, Return, measure_idle, measure_load
from bench.fleet.recovery import Recovery, measure_recovery
from bench.fleet.scaling import Scaling, measure_scaling
from bench.machine import Machine, add_wait, await_quiet, machine
from bench.sheets import Sheet, show


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    idle: Idle
    loaded: Loaded
    back: Return
    recovery: list[Recovery]
    scaling: list[Scaling]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.fleet", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer nodes, shorter")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--nodes", type=int, help="under load; 1,000, or 200 with --quick")
    parser.add_argument("--rate", type=int, default=600, help="tasks a second; 600")
    add_wait(parser)
    options = parser.parse_args(arguments)
    console = Console()
    figures = _measure(options, console)
    show(sheets(figures), console)
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)))


def _measure(options: argparse.Namespace, console: Console) -> Figures:
    quick = options.quick
    about = machine(await_quiet(options.wait, console))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        console.print("an idle fleet")
        idle = measure_idle(folder / "idle", nodes=100, seconds=10 if quick else 40)
        console.print("many nodes under load")
        loaded, back = measure_load(
            folder / "load",
            nodes=options.nodes or (200 if quick else 1_000),
            rate=options.rate,
            seconds=8 if quick else 30,
        )
        console.print("dead nodes")
        recovery = measure_recovery(folder / "recovery", times=1 if quick else 5)
        console.print("more and more workers")
        scaling = measure_scaling(
            folder / "scaling",
            workers=(1, 2, 4) if quick else (1, 2, 4, 8),
            # The last tasks end one by one, which is the less of the whole the longer it is.
            seconds=20 if quick else 40,
        )
    return Figures(
        machine=about, idle=idle, loaded=loaded, back=back, recovery=recovery, scaling=scaling
    )


def sheets(figures: Figures) -> list[Sheet]:
    """The figures as tables, for the terminal and for the page."""
    loaded, back, one = figures.loaded, figures.back, figures.scaling[0]
    return [
        Sheet(
            f"{loaded.nodes:,} nodes at one master, {loaded.tasks_a_second:,.0f} tasks a second",
            ["ms", "p50", "p99", "longest", "number"],
            [
                [what, f"{it.p50:.1f}", f"{it.p99:.1f}", f"{it.most:.0f}", f"{it.number:,}"]
                for what, it in sorted(loaded.spreads.items())
            ],
        ),
        Sheet(
            "what it costs",
            ["", "cores", "MB"],
            [
                [
                    f"master, {loaded.nodes:,} nodes under load",
                    f"{loaded.master_cores:.2f}",
                    f"{loaded.master_mb:.0f}",
                ],
                [
                    f"master, {figures.idle.nodes} idle nodes",
                    f"{figures.idle.master_cores:.3f}",
                    "",
                ],
                ["all the simulated nodes under load", f"{loaded.nodes_cores:.2f}", ""],
            ],
        ),
        Sheet(
            "the master killed with -9 and started again",
            ["nodes", "all back after, s", "registering p50, ms", "p99"],
            [
                [
                    f"{back.nodes:,}",
                    f"{back.seconds:.1f}",
                    *(
                        [f"{it.p50:.0f}", f"{it.p99:.0f}"]
                        if (it := back.spreads.get("register"))
                        else ["sessions went on", ""]
                    ),
                ]
            ],
        ),
        Sheet(
            "until the work of a dead node runs again, s",
            ["it was", "quickest", "slowest", "times"],
            [
                [
                    each.died,
                    f"{min(each.seconds):.1f}",
                    f"{max(each.seconds):.1f}",
                    str(len(each.seconds)),
                ]
                for each in figures.recovery
            ],
        ),
        Sheet(
            "tasks that wait half a second, four slots a worker",
            ["workers", "tasks a second", "of linear", "of ideal"],
            [
                [
                    str(each.workers),
                    f"{each.tasks_a_second:.1f}",
                    f"{each.tasks_a_second / one.tasks_a_second / each.workers * one.workers:.3f}",
                    f"{each.of_ideal:.3f}",
                ]
                for each in figures.scaling
            ],
        ),
    ]
