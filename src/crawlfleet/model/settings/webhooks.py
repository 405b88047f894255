"""Sending of webhooks."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from crawlfleet.model.settings.ranges import Count, Seconds


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sending of webhooks."""

    allow_private: Annotated[
        bool,
        Meta(
            description="Whether webhooks may lead to loopback, private and link-local "
            "addresses and those of the master itself; never to a metadata "
            "service of a cloud."
        ),
    ] = False
    timeout_s: Annotated[
        Seconds, Meta(description="The timeout of a request to a receiver, including its answer.")
    ] = 10.0
    max_attempts: Annotated[
        Count, Meta(description="A delivery is given up after this many attempts.")
    ] = 30
    first_retry_s: Annotated[
        Seconds,
        Meta(description="The wait after the first failure; it doubles with each further one."),
    ] = 2.0
    longest_retry_s: Annotated[Seconds, Meta(description="The longest such wait.")] = 900.0
    progress_s: Annotated[
        Seconds,
        Meta(
            description="The shortest time between two progress reports of a task with a call-back."
        ),
    ] = 10.0
    most_waiting: Annotated[
        Count,
        Meta(
            description="A webhook with this many waiting deliveries is full: no more are "
            "kept until it is resumed. For call-backs the limit applies to each "
            "receiver; ends of tasks beyond it are dead letters."
        ),
    ] = 50_000


class MailSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server for e-mails."""

    host: Annotated[
        str, Meta(description="The name or address of the server; no e-mails when empty.")
    ] = ""
    port: Annotated[int, Meta(ge=1, le=65535, description="The port of the server.")] = 587
    security: Annotated[
        Literal["starttls", "tls", "none"],
        Meta(
            description="`starttls` begins TLS on an open connection, `tls` from the start; `none` "
            "is for a server on this machine."
        ),
    ] = "starttls"
    user: Annotated[str, Meta(description="The user name; without authentication when empty.")] = ""
    password: Annotated[str, Meta(description="The password of the user.")] = ""
    sender: Annotated[str, Meta(description="The sender address of e-mails.")] = (
        "crawlfleet@localhost"
    )
    timeout_s: Annotated[
        Seconds, Meta(description="The timeout of each step of sending an e-mail.")
    ] = 20.0
