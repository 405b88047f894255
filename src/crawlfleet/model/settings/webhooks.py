"""How others are told of what happens."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from crawlfleet.model.settings.ranges import Count, Seconds


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How others are told of what happens."""

    allow_private: Annotated[
        bool,
        Meta(
            description="Whether webhooks may lead to loopback, private and link-local addresses "
            "and those of the master itself; never to a cloud's metadata service."
        ),
    ] = False
    timeout_s: Annotated[
        Seconds, Meta(description="How long a receiver may take for its whole answer.")
    ] = 10.0
    max_attempts: Annotated[
        Count, Meta(description="After so many attempts a delivery is given up.")
    ] = 30
    first_retry_s: Annotated[
        Seconds, Meta(description="The wait after the first failure; each further one is doubled.")
    ] = 2.0
    longest_retry_s: Annotated[Seconds, Meta(description="The longest such wait.")] = 900.0
    progress_s: Annotated[
        Seconds,
        Meta(description="A task with a call-back is told of at most so often while it gets on."),
    ] = 10.0
    most_waiting: Annotated[
        Count,
        Meta(
            description="A webhook for which so many deliveries wait is stopped: nothing more is "
            "kept for it until it is resumed. Of call-backs so many wait for each receiver; ends "
            "of tasks beyond that are dead letters."
        ),
    ] = 50_000


class MailSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server that letters to people are handed to."""

    host: Annotated[str, Meta(description="Its name or address; no letters when empty.")] = ""
    port: Annotated[int, Meta(ge=1, le=65535, description="Its port.")] = 587
    security: Annotated[
        Literal["starttls", "tls", "none"],
        Meta(
            description="`starttls` begins TLS on an open connection, `tls` from the start; `none` "
            "is for a server on this machine."
        ),
    ] = "starttls"
    user: Annotated[str, Meta(description="The name to sign in with; not at all when empty.")] = ""
    password: Annotated[str, Meta(description="The password to sign in with.")] = ""
    sender: Annotated[str, Meta(description="From whom letters are.")] = "crawlfleet@localhost"
    timeout_s: Annotated[
        Seconds, Meta(description="How long each step of handing over a letter may take.")
    ] = 20.0
