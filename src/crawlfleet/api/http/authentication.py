"""Authentication of requests: first by address, then by key or session.

A key that the master generated cannot be guessed, so it is accepted from everywhere at any time.
Wrong keys lock out the address that they come from. While an address is locked out, wrong keys are
answered 429, and so are the keys that a person may have chosen (`admin` and `join`). So these keys
cannot be guessed, and an attacker cannot stop the nodes behind the same router.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import lru_cache
from http import HTTPStatus
from math import ceil
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from crawlfleet.api.http.browser import check_own, check_token, is_secure, session_of
from crawlfleet.api.http.measurements import RequestMeasurements
from crawlfleet.api.http.problems import place, problem, respond
from crawlfleet.control.access.authentication import Authentication
from crawlfleet.control.access.keys import Principal
from crawlfleet.core.network.client_addresses import (
    Address,
    client_of,
    household,
    is_in,
    is_welcome,
    parse_address,
    parse_networks,
)
from crawlfleet.core.network.lockout import LockoutStanding, after_wrong_key, locked_for_s
from crawlfleet.errors import LockedOut, Refused, Unauthenticated
from crawlfleet.model.settings import ServerSettings
from crawlfleet.telemetry import Component, logger

log = logger(Component.API)
CLIENT: Final = "crawlfleet.client"
"""The key of the client's address in the ASGI scope of a request."""
CONNECTION: Final = "crawlfleet.connection"
"""The key of the connection in the ASGI scope of a request."""
MAX_REMEMBERED_ADDRESSES: Final = 10_000
"""Maximum number of addresses with wrong keys that are remembered; the one that was quiet for
longest is dropped first."""
MAX_LINES_PER_MINUTE: Final = 20
SAFE: Final = frozenset({"GET", "HEAD"})
"""Methods that change nothing: a session needs no CSRF token for them."""


class ClientAddress(NamedTuple):
    """The address that a request comes from."""

    address: str
    household: str
    """The network that wrong keys are counted for."""


class AddressFilter:
    """ASGI middleware that refuses clients by their address, before a request is read."""

    def __init__(
        self, app: ASGIApp, *, settings: ServerSettings, refuse: Callable[..., None]
    ) -> None:
        self._app = app
        self._refuse = refuse
        self._allowed = parse_networks(settings.allow_clients)
        self._trusted = parse_networks(settings.trusted_proxies)
        self._allow_loopback = settings.allow_loopback
        self._judge_peer = lru_cache(maxsize=4096)(self._judge)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        peer = scope["client"][0] if scope.get("client") else ""
        client, is_proxy, welcome = self._judge_peer(peer)
        if is_proxy and (forwarded := _forwarded(scope)):
            # Not remembered: a client may write into it what it likes.
            client, _, welcome = self._judge(peer, forwarded)
        if is_proxy and is_secure(scope):
            scope["scheme"] = "https"
        scope[CLIENT] = client
        if welcome:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        self._refuse("address", client, request)
        answer = respond(
            problem(
                HTTPStatus.FORBIDDEN,
                "address-refused",
                _unwelcome(client),
                place(request),
            )
        )
        await answer(scope, receive, send)

    def _judge(self, peer: str, forwarded: str = "") -> tuple[ClientAddress, bool, bool]:
        """The client, whether the peer is a trusted proxy, and whether the client's address is
        allowed."""
        address: Address | None = client_of(peer, forwarded, self._trusted)
        of_peer = parse_address(peer)
        return (
            ClientAddress("" if address is None else str(address), household(address)),
            of_peer is not None and is_in(of_peer, self._trusted),
            is_welcome(address, self._allowed, allow_loopback=self._allow_loopback),
        )


def _unwelcome(client: ClientAddress) -> str:
    if not client.address:
        return (
            "it is not known from which address this comes; "
            "have the proxy append the client's to `X-Forwarded-For`"
        )
    return f"nobody may ask from {client.address}; `server.allow_clients` says who may"


def _forwarded(scope: Scope) -> str:
    values = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    return ",".join(value.decode("latin-1") for value in values)


class Authenticator:
    """Authenticates requests, locks out addresses that send wrong keys, and logs refusals."""

    def __init__(
        self,
        *,
        authentication: Authentication,
        requests: RequestMeasurements,
        wrong_keys_per_minute: int,
    ) -> None:
        self._authentication = authentication
        self._requests = requests
        self._per_minute = wrong_keys_per_minute
        self._standings: OrderedDict[str, LockoutStanding] = OrderedDict()
        self._lines_left = float(MAX_LINES_PER_MINUTE)
        self._lines_at = 0.0
        self._suppressed_lines = 0

    async def authenticate(self, request: Request, client: ClientAddress) -> Principal:
        """The caller, by the key or the session of a request. Raises `Unauthenticated`, `LockedOut`
        or `Refused`."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and secret:
            return await self.authenticate_key(secret.strip(), client)
        session = session_of(request)
        if session is None:
            raise Unauthenticated("send a key: `Authorization: Bearer KEY`", "no_key")
        address = client.address or "unknown"
        caller = await self._authentication.authenticate_session(session, address=address)
        if request.method not in SAFE:
            check_own(request, needs_origin=True)
            check_token(request, caller)
        return caller

    async def authenticate_key(self, secret: str, client: ClientAddress) -> Principal:
        """The holder of a key. Raises `Unauthenticated` or `LockedOut`."""
        address = client.address or "unknown"
        return await self._checked(
            self._authentication.authenticate(secret, address=address), client
        )

    async def sign_in(
        self, request: Request, client: ClientAddress, *, key: str | None, link: str | None
    ) -> Principal:
        """The caller that signs in with a key or a link. Raises `Unauthenticated`, `LockedOut` or
        `Refused`."""
        with self.log_refusals(client, request):
            # Else a strange page could sign a browser in as somebody else, who then reads on.
            check_own(request, needs_origin=False)
            if link is not None:
                return await self._checked(self._authentication.authenticate_link(link), client)
            return await self.authenticate_key(key or "", client)

    async def _checked(
        self, asking: Coroutine[Any, Any, Principal], client: ClientAddress
    ) -> Principal:
        try:
            caller = await asking
        except Unauthenticated as error:
            if error.reason == "unknown_key" and self._per_minute:
                self._note_wrong_key(client)
            raise
        if caller.is_guessable and self._standings:
            self._check_lock(client)
        return caller

    @contextmanager
    def log_refusals(self, client: ClientAddress, request: Request) -> Iterator[None]:
        """Count and log a refusal that is raised within this block."""
        try:
            yield
        except Unauthenticated as error:
            self.refuse(error.reason, client, request)
            raise
        except LockedOut:
            self.refuse("locked_out", client, request)
            raise
        except Refused:
            self.refuse("forged", client, request)
            raise

    def refuse(self, reason: str, client: ClientAddress, request: Request, actor: str = "") -> None:
        """Count a refused request, and log it, at most `MAX_LINES_PER_MINUTE` times a minute."""
        self._requests.refusals[reason] += 1
        now = asyncio.get_running_loop().time()
        refilled = self._lines_left + (now - self._lines_at) * MAX_LINES_PER_MINUTE / 60.0
        self._lines_left, self._lines_at = min(refilled, float(MAX_LINES_PER_MINUTE)), now
        if self._lines_left < 1.0:
            self._suppressed_lines += 1
            return
        self._lines_left -= 1.0
        fields: dict[str, Any] = {"actor": actor} if actor else {}
        if self._suppressed_lines:
            fields["others_unsaid"] = self._suppressed_lines
            self._suppressed_lines = 0
        log.warning(
            "request refused",
            reason=reason,
            address=client.address,
            method=request.method[:20],
            path=place(request),
            **fields,
        )

    def _note_wrong_key(self, client: ClientAddress) -> None:
        now = asyncio.get_running_loop().time()
        before = self._standings.get(client.household)
        standing = after_wrong_key(before, per_minute=self._per_minute, now=now)
        self._standings[client.household] = standing
        self._standings.move_to_end(client.household)
        if len(self._standings) > MAX_REMEMBERED_ADDRESSES:
            self._standings.popitem(last=False)
        self._check_lock(client)

    def _check_lock(self, client: ClientAddress) -> None:
        now = asyncio.get_running_loop().time()
        wait_s = locked_for_s(self._standings.get(client.household), now=now)
        if wait_s > 0:
            whence = client.address or "unknown addresses"
            raise LockedOut(
                f"too many wrong keys came from {whence}; wait {ceil(wait_s)} s", wait_s
            )
