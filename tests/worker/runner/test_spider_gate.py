"""Who waits at the gate of a spider's downloads, with Scrapy and Twisted played by hand."""

import asyncio
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from crawlfleet.worker.runner.crawlfleet_runner.politeness import Gate
from crawlfleet.worker.runner.crawlfleet_runner.windows import Host

HOST = "https://shop.example"


class Turn:
    """As much of a Deferred as is needed."""

    def __init__(self) -> None:
        self.future = asyncio.get_running_loop().create_future()
        self.callback = self.future.set_result


class Ignored(Exception):
    pass


class Ledger:
    """Turns everybody away, and notes who would have waited."""

    def __init__(self) -> None:
        self.patient: list[bool] = []

    def host(self, name: str) -> Host:
        return Host(name)

    def enter(self, host: Host, go: Any, *, patiently: bool) -> None:
        self.patient.append(patiently)
        go("the spider is being stopped")


@pytest.mark.parametrize(
    ("path", "is_page", "is_patient", "is_told"),
    [
        ("/a", True, False, True),
        ("/image", False, True, True),
        ("/robots.txt", False, True, False),
    ],
)
def test_only_pages_are_turned_away_from_a_host_that_rests(
    path: str, is_page: bool, is_patient: bool, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, found in (
        ("scrapy", {}),
        ("scrapy.exceptions", {"IgnoreRequest": Ignored}),
        ("scrapy.utils", {}),
        ("scrapy.utils.defer", {"maybe_deferred_to_future": lambda turn: turn.future}),
        ("twisted", {}),
        ("twisted.internet", {}),
        ("twisted.internet.defer", {"Deferred": Turn}),
    ):
        module = ModuleType(name)
        vars(module).update(found)
        monkeypatch.setitem(sys.modules, name, module)
    left: list[Any] = []
    ledger: Any = Ledger()
    unset = SimpleNamespace(
        getdict=lambda _: {}, getfloat=lambda _: 0.0, getint=lambda _: 8, getbool=lambda _: False
    )
    crawler = SimpleNamespace(
        settings=SimpleNamespace(**vars(unset), get=lambda _: None),
        spider=SimpleNamespace(),
        engine=SimpleNamespace(downloader=SimpleNamespace(slots={})),
    )
    gate = Gate(
        crawler,
        ledger,
        room=lambda *_: 0,
        answered=lambda _: None,
        left_alone=left.append,
        is_page=lambda _: is_page,
    )
    request = SimpleNamespace(url=f"{HOST}{path}", meta={})
    with pytest.raises(Ignored, match="stopped"):
        asyncio.run(gate._pass(lambda _: None, request))
    assert ledger.patient == [is_patient]
    assert left == ([request] if is_told else [])
