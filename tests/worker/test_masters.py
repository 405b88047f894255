"""What is kept from cells about the masters."""

import asyncio
import socket

import pytest

from crawlfleet.worker.pool import confinement
from crawlfleet.worker.pool.confinement import Masters


def test_all_that_is_named_is_closed_by_name_address_and_port() -> None:
    masters = Masters(["http://localhost:8700", "https://192.0.2.1", "http://[2001:db8::1]:9/"])
    assert masters.ports == (8700, 443, 9)
    names = asyncio.run(masters.names())
    assert {"localhost", "192.0.2.1", "2001:db8::1"} <= set(names)
    assert {"127.0.0.1", "::1"} & set(names)


def test_one_that_is_found_later_is_closed_as_well() -> None:
    async def main() -> tuple[str, ...]:
        masters = Masters([""])
        assert await masters.names() == ()
        masters.use(["http://192.0.2.1:8700"])
        assert "192.0.2.1" in await masters.names()
        masters.use(["http://192.0.2.2:8701"])
        assert masters.ports == (8700, 8701)
        return await masters.names()

    assert {"192.0.2.1", "192.0.2.2"} <= set(asyncio.run(main()))


def test_a_name_that_leads_elsewhere_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "LOOK_UP_AFTER_S", 0.0)
    answers = ["192.0.2.1", "192.0.2.2"]

    async def main() -> tuple[str, ...]:
        async def look_up(*_: object, **__: object) -> list[object]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers.pop(0), 0))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up, raising=False)
        masters = Masters(["http://master.example"])
        await masters.names()
        return await masters.names()

    assert asyncio.run(main()) == ("master.example", "192.0.2.1", "192.0.2.2")
