"""The values of secrets, put in the place of `${secret:NAME}` where a request is made."""

from collections.abc import Mapping
from typing import ClassVar, Final

import msgspec

from crawlfleet.core.tasks import credentials
from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.model.task import ErrorClass

CREDENTIALS: Final = frozenset({*credentials.HEADERS, "cookie"})
"""Headers that identify the sender, whatever their value."""


class NoSuchSecret(CrawlfleetError):
    """A reference to a secret that the work was not given."""

    error_class: ClassVar = ErrorClass.INVALID

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no secret {name[:64]!r} here: tasks of a fleet get those of their project "
            "(`crawlfleet secrets set`), and a crawl of one machine has none"
        )


def with_secrets(parameters: CrawlParameters, secrets: Mapping[str, str]) -> CrawlParameters:
    """A crawl whose requests carry the values of secrets; raises `NoSuchSecret`. Its sinks are
    left as they are: they are opened elsewhere."""
    try:
        fetching = credentials.filled_fetching(parameters.fetching, secrets)
    except KeyError as error:
        raise NoSuchSecret(str(error.args[0])) from None
    return msgspec.structs.replace(parameters, fetching=fetching)


def check_no_secrets(parameters: CrawlParameters) -> None:
    """Raise `NoSuchSecret` if a crawl of one machine, which has none, refers to a secret."""
    with_secrets(parameters, {})
    for spec in parameters.sinks:
        if name := next(iter(credentials.REFERENCE.findall(spec.url)), None):
            raise NoSuchSecret(name)


def headers_with_secrets(headers: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """Headers with the values of secrets; raises `NoSuchSecret`."""
    try:
        return {name: credentials.filled(value, secrets) for name, value in headers.items()}
    except KeyError as error:
        raise NoSuchSecret(str(error.args[0])) from None


def private_headers(headers: Mapping[str, str]) -> frozenset[str]:
    """The names of the headers, with references as they were written, that hold a credential."""
    return frozenset(
        name
        for name, value in headers.items()
        if credentials.BEGIN in value or name.lower() in CREDENTIALS
    )
