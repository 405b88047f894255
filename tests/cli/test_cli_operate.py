"""What `master` and `worker` refuse before they begin, and what to do about it."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import Result

from crawlfleet.errors import ConfigError
from crawlfleet.trust import Trust, check_trust, with_pin, without_pin

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
