"""What authors of plug-ins import is there, and is loaded when it is used."""

import subprocess
import sys

import pytest

from crawlfleet import plugin


@pytest.mark.parametrize("name", plugin.__all__)
def test_each_name_leads_to_its_class(name: str) -> None:
    assert getattr(plugin, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = plugin.Nonsense  # type: ignore[attr-defined]


def test_an_executor_does_not_load_the_scheduler() -> None:
    program = "from crawlfleet.plugin import Context, Measured; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded = done.stdout.split()
    assert "crawlfleet.ports.execution" in loaded
    assert not {"numpy", "crawlfleet.core.placement.strategies"} & {*loaded}
