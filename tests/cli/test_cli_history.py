"""Small bars, labels as they are typed, and lines as people read them."""

from datetime import UTC, datetime

import pytest
import typer
from rich.console import Console

from crawlfleet.cli.commands.logs import draw_line
from crawlfleet.cli.commands.node_history import WIDTH, draw_history, sparkline
from crawlfleet.cli.commands.nodes import parse_labels
from crawlfleet.views.executions import LogLineView
from crawlfleet.views.nodes import NodeHistoryView, NodeSampleView


def sample(minute: int, **fields: float | None) -> NodeSampleView:
    usual: dict[str, float | None] = dict.fromkeys(
        ("cpu_usage", "memory_usage", "network_io", "disk_io", "load", "active_tasks"), 0.0
    )
    usual |= {"gpu_usage": None, "latency_s": None, "ended": 0, "errors": 0, "count": 1}
    at = datetime(2026, 11, 15, 9, minute, tzinfo=UTC)
    return NodeSampleView(at=at, **(usual | fields))


@pytest.mark.parametrize(
    ("values", "full", "bars"),
    [
        ([0.0, 0.5, 1.0], 1.0, "▁▅█"),
        ([0.0, 0.0], None, "▁▁"),
        ([1.0, None, 8.0], None, "▂ █"),
        ([], None, ""),
        ([2.0], 1.0, "█"),
    ],
)
def test_values_become_bars(values: list[float | None], full: float | None, bars: str) -> None:
    if not values:
        assert draw(NodeHistoryView(node_id="n", resolution="raw", items=[])).strip() == (
            "nothing was heard of the node in that time"
        )
        return
    assert sparkline(values, full) == bars


def test_many_values_share_bars() -> None:
    bars = sparkline([0.0] * 5000 + [1.0] * 5000, 1.0)

    assert len(bars) == WIDTH
    assert bars == "▁" * (WIDTH // 2) + "█" * (WIDTH // 2)


def draw(history: NodeHistoryView) -> str:
    console = Console(width=120, color_system=None)
    with console.capture() as captured:
        console.print(draw_history(history))
    return captured.get()


def test_only_figures_that_the_node_has_are_drawn() -> None:
    items = [sample(1, cpu_usage=0.5, network_io=2_500.0), sample(2, cpu_usage=1.0, latency_s=0.5)]

    drawn = draw(NodeHistoryView(node_id="n", resolution="minute", items=items))

    rows = {line.split()[0]: line.split() for line in drawn.splitlines()[2:]}
    assert rows["cpu"] == ["cpu", "▅█", "100%", "75%", "100%"]
    assert rows["network"][-2:] == ["2", "kB/s"]
    assert rows["latency"][-6:] == ["0.50", "s", "0.50", "s", "0.50", "s"]
    assert "gpu" not in rows


def test_labels_are_set_and_removed() -> None:
    assert parse_labels(["rack=7", "spare-", "empty=", "odd=a=b-"]) == {
        "rack": "7",
        "spare": None,
        "empty": "",
        "odd": "a=b-",
    }


@pytest.mark.parametrize("text", ["rack", "=7", "-", ""])
def test_what_is_no_label_is_told(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="name=value"):
        parse_labels([text])


def test_a_line_cannot_steer_the_terminal() -> None:
    line = LogLineView(
        seq=1,
        at=datetime(2026, 11, 15, tzinfo=UTC),
        level="error",
        message="bad \x1b[2J [red]",
        fields={"a\x1b": "b\n"},
    )

    assert draw_line(line).plain.endswith("error    bad \\x1b[2J [red]  a\\x1b=b\\n")
