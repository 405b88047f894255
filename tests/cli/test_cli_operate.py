"""What `master` and `worker` refuse before they begin, and what to do about it."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from crawlfleet.cli.fleet.status_table import LiveTable
from crawlfleet.errors import Busy, ConfigError
from crawlfleet.tls import Trust, check_trust, with_pin, without_pin

Run = Callable[..., Result]

JOIN = "8c1f" * 16
PIN = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["worker", "--join", JOIN], ["--master", "--discover"]),
        (["worker", "--master", "a", "--discover", "--join", JOIN], ["give one of them"]),
        (["worker", "--master", "http://a"], ["--join", "join-tokens create"]),
        (["worker", "--master", "a", "--join", JOIN, "--key", "k.pem"], ["worker.tls_cert"]),
        (["master", "--host", "0.0.0.0"], ["--tls-cert", "--plain-http"]),
        (["master", "--host", "10.1.2.3"], ["--tls-cert", "--plain-http"]),
        (["master", "--tls-key", "k.pem"], ["server.tls_cert"]),
        (["master", "--announce"], ["server.tls_cert"]),
    ],
)
def test_what_would_be_unsafe_or_cannot_be_is_refused_with_the_remedy(
    run: Run, place: Path, arguments: list[str], told: list[str]
) -> None:
    refused = run(*arguments, "--data", str(place / "data"))
    assert refused.exit_code != 0
    for words in told:
        assert words in refused.output, refused.output


@pytest.mark.parametrize(
    ("trust", "url", "told"),
    [
        (Trust(), None, "--ca"),
        (Trust(pin=PIN), "http://a", "https://"),
        (Trust(pin=PIN), "https://a,http://b", "https://"),
        (Trust(pin=PIN), "https://a,https://b", ""),
        (Trust(pin=PIN), None, ""),
        (Trust(ca="ca.pem"), None, ""),
        (Trust(), "http://a", ""),
    ],
)
def test_a_join_token_goes_to_nobody_who_could_be_anybody(
    trust: Trust, url: str | None, told: str
) -> None:
    with pytest.raises(ConfigError, match=told) if told else nullcontext():
        check_trust(trust, url)


def test_a_join_token_is_the_same_with_and_without_a_fingerprint() -> None:
    assert without_pin(with_pin(JOIN, PIN)) == (JOIN, PIN)
    assert without_pin(with_pin(JOIN, "")) == (JOIN, "")
    # What people chose themselves may look like anything.
    assert without_pin("a.secret.of.mine") == ("a.secret.of.mine", "")
    assert without_pin(f"{JOIN}.sha256-short") == (f"{JOIN}.sha256-short", "")


class Silent:
    """A client whose master gives no status."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def status(self) -> Any:
        raise self._error


def test_a_table_that_fails_says_so_and_ends_alone(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(LiveTable(Silent(ValueError("odd"))).run())  # type: ignore[arg-type]
    told = capsys.readouterr().err
    assert "progress is not shown any more: ValueError: odd" in told
    assert "the fleet goes on" in told


def test_a_table_waits_for_a_master_that_answers_with_an_error() -> None:
    table = LiveTable(Silent(Busy("too much at once")))  # type: ignore[arg-type]
    assert "too much at once" in str(asyncio.run(table.picture()))
