"""Makes connections, to allowed addresses only.

The guard checks the very address that a socket is about to connect to. So literals, odd spellings,
DNS answers and redirects are all the same to it, and an answer that changes between check and use
has no effect: there is no second look-up. Through a proxy the guard can check the proxy's address,
and the addresses that this machine knows for the target's name; the proxy resolves the name by
itself. In a cell of the sandbox there are no names and no network but the agent's socket, where the
same guard works.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import ClassVar, Final, TypeVar

from crawlfleet.core.network import egress
from crawlfleet.crawl.fetch.dns import Names, NameUnknown, is_literal
from crawlfleet.crawl.fetch.proxy import HIDDEN_NAMES, BadProxy, Proxy, ProxyRefused, Tunnel
from crawlfleet.crawl.fetch.request import RequestOrigin
from crawlfleet.crawl.fetch.sandbox_proxy import SandboxProxyClosed, Unreached, door_of_cell
from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.model.task import ErrorClass
from crawlfleet.tls import client_context

MAX_ADDRESSES: Final = 6
"""Maximum number of addresses of a name that are tried; each gets its share of the timeout."""
MIN_TRY_S: Final = 1.0
DISCARD: Final = 9
"""The discard port, of which any would do: nothing is sent to it."""

P = TypeVar("P", bound=asyncio.Protocol)
Bar = Callable[[str, int], str | None]
"""Returns the reason why a port of an address may not be reached, other than the guard's
reasons."""


class AddressRefused(CrawlfleetError):
    """The guard does not let a connection through; the message names the remedy."""

    error_class: ClassVar = ErrorClass.INVALID

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"not connected: {reason}; `worker.allow_private` opens loopback, private and"
            " link-local addresses and those of the node itself, and no others"
        )


class NetworkTrouble(CrawlfleetError):
    """The other side could not be reached, closed the connection, or sent nonsense."""

    error_class: ClassVar = ErrorClass.NETWORK
    retryable = True


class NoConnection(NetworkTrouble):
    """No connection could be made; `outcome` is the outcome of the visit."""

    def __init__(self, outcome: Outcome, reason: str, address: str = "") -> None:
        super().__init__(reason)
        self.outcome, self.address = outcome, address


class Dialler:
    """Opens guarded connections to the servers that URLs name."""

    def __init__(
        self,
        *,
        allow_private: bool,
        connect_s: float,
        names: Names | None = None,
        tls: ssl.SSLContext | None = None,
        verify_tls: bool = True,
        http2: bool = False,
    ) -> None:
        """Create a dialler. `verify_tls` and `http2` are used only without `tls`."""
        self._allow_private = allow_private
        self._connect_s = connect_s
        self._names = names or Names()
        self._owns_names = names is None
        self._own_tls = tls
        self._verify_tls = verify_tls
        self._http2 = http2
        self._door = door_of_cell()

    def for_public_addresses(self) -> "Dialler":
        """Return a dialler with the same resolver that connects to public addresses only. It need
        not be closed."""
        return Dialler(
            allow_private=False,
            connect_s=self._connect_s,
            names=self._names,
            tls=self._own_tls,
            verify_tls=self._verify_tls,
            http2=self._http2,
        )

    async def open(
        self,
        origin: RequestOrigin,
        proxy: Proxy | None,
        make: Callable[[], P],
        barred: Bar | None = None,
    ) -> tuple[P, str]:
        """Open a connection with the protocol that `make` makes. Returns its address, too, which is
        none that is `barred`. Raises `AddressRefused`, and `NoConnection` for all faults
        outside."""
        stage, address = "", ""
        try:
            async with asyncio.timeout(self._connect_s):
                stage = "look up the name"
                if proxy is None:
                    addresses = await self.allowed(origin.host, barred, origin.port)
                    stage = "connect"
                    sock, address = await self._connect(addresses, origin.port)
                    stage = "agree on TLS" if origin.tls else "connect"
                    return await self._begin(sock, origin, make), address
                await self._check_behind(proxy, origin.host)
                addresses = await self.allowed(proxy.host)
                stage = "connect through the proxy"
                if proxy.scheme.startswith("socks5"):
                    if self._door is not None:
                        raise BadProxy("a cell reaches no SOCKS proxy; name an http:// one")
                    address = addresses[0]
                    sock = await self._through_socks(address, proxy, origin)
                    return await self._begin(sock, origin, make), address
                sock, address = await self._connect(addresses, proxy.port)
                return await self._through_http(sock, proxy, origin, make), address
        except TimeoutError:
            outcome = Outcome.DNS if stage == "look up the name" else Outcome.TIMEOUT
            reason = f"could not {stage} within {self._connect_s:g} s"
            raise NoConnection(outcome, reason, address) from None
        except NameUnknown as error:
            raise NoConnection(Outcome.DNS, str(error)) from None
        except SandboxProxyClosed as error:
            raise AddressRefused(str(error)) from None
        except Unreached as error:
            raise NoConnection(error.outcome, str(error), address) from None
        except ssl.SSLError as error:
            raise NoConnection(Outcome.TLS, _tls_reason(error), address) from None
        except (ProxyRefused, BadProxy) as error:
            raise NoConnection(Outcome.CONNECT, str(error), address) from None
        except OSError as error:
            outcome = Outcome.TLS if stage == "agree on TLS" else Outcome.CONNECT
            reason = error.strerror or str(error) or type(error).__name__
            raise NoConnection(outcome, f"could not {stage}: {reason.lower()}", address) from None
        except ValueError as error:  # names that cannot be put into a handshake
            raise NoConnection(Outcome.CONNECT, f"could not {stage}: {error}", address) from None

    @property
    def _tls(self) -> ssl.SSLContext:
        # Made when the first server wants it: reading all authorities takes a while.
        return self._own_tls or tls_context(verify=self._verify_tls, http2=self._http2)

    async def address_of(self, host: str) -> str | None:
        """Return the address of a host that is tried first. `None` if it has none, if the resolver
        does not answer in time, or in a cell."""
        if self._door is not None:
            return None
        try:
            async with asyncio.timeout(self._connect_s):
                return (await self._names.addresses(host))[0]
        except (NameUnknown, TimeoutError):
            return None

    async def close(self) -> None:
        """Close the resolver, unless `names` were given: they may serve others."""
        if self._owns_names:
            await self._names.close()

    async def allowed(self, host: str, barred: Bar | None = None, port: int = 0) -> Sequence[str]:
        """Return the allowed addresses of a host, without those whose `port` is `barred`; at least
        one. In a cell the host itself comes back: the agent resolves it and judges its addresses.
        Raises `AddressRefused` and `NameUnknown`."""
        if self._door is not None and not is_literal(host):
            return (host,)
        known = await self._names.addresses(host)
        reasons = [
            self._refusal(each) or (barred(each, port) if barred else None) for each in known
        ]
        allowed = [each for each, reason in zip(known, reasons, strict=True) if not reason]
        if not allowed:
            raise AddressRefused(_refusal(host, known[0], reasons[0] or ""))
        return allowed

    async def _check_behind(self, proxy: Proxy, host: str) -> None:
        """Raise `AddressRefused` for hosts that a proxy must not be asked for, as far as this
        machine can know them."""
        name = host.rstrip(".")
        if name in HIDDEN_NAMES:
            raise AddressRefused(f"{host} is a cloud's metadata service")
        if not self._allow_private and f".{name}".endswith(".localhost"):
            raise AddressRefused(f"{host} is the proxy's own machine")
        if self._door is not None and not is_literal(host):
            return  # a cell has no DNS, and the agent judges the proxy alone
        try:
            known = await self._names.addresses(host)
        except NameUnknown:
            return  # the proxy may know it
        for address in known:  # the proxy may take any of them
            if reason := egress.refusal(address, allow_private=self._allow_private):
                raise AddressRefused(_refusal(host, address, reason))

    async def _connect(self, addresses: Sequence[str], port: int) -> tuple[socket.socket, str]:
        """Return a socket to the first address that answers; each gets its share of the timeout."""
        if self._door is not None:
            return await self._door.connect(addresses[0], port, public_only=not self._allow_private)
        loop = asyncio.get_running_loop()
        ends = time.monotonic() + self._connect_s
        tried = addresses[:MAX_ADDRESSES]
        for left, address in zip(range(len(tried), 0, -1), tried, strict=True):
            # Asked again, here where it counts: the socket goes to this address and no other.
            if reason := self._refusal(address):
                raise AddressRefused(reason)
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            try:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                share_s = max(MIN_TRY_S, (ends - time.monotonic()) / left)
                async with asyncio.timeout(share_s if left > 1 else None):
                    await loop.sock_connect(sock, (address, port))
            except OSError:  # a timeout is one
                sock.close()
                if left == 1:
                    raise
            except BaseException:
                sock.close()
                raise
            else:
                return sock, address
        raise OSError("no address")

    def _refusal(self, address: str) -> str | None:
        """Why the guard does not let a connection to an address through."""
        if reason := egress.refusal(address, allow_private=self._allow_private):
            return reason
        if not self._allow_private and self._door is None and is_own(address):
            return f"{address} is {egress.OF_THIS_MACHINE}"
        return None

    async def _begin(self, sock: socket.socket, origin: RequestOrigin, make: Callable[[], P]) -> P:
        loop = asyncio.get_running_loop()
        try:
            if origin.tls:
                _, protocol = await loop.create_connection(
                    make, sock=sock, ssl=self._tls, server_hostname=_certified(origin.host)
                )
            else:
                _, protocol = await loop.create_connection(make, sock=sock)
        except BaseException:
            sock.close()
            raise
        return protocol

    async def _through_socks(
        self, address: str, proxy: Proxy, origin: RequestOrigin
    ) -> socket.socket:
        if reason := self._refusal(address):
            raise AddressRefused(reason)
        import python_socks
        from python_socks.async_.asyncio import Proxy as SocksProxy

        # By its address, so that nobody looks it up a second time.
        way = SocksProxy.create(
            python_socks.ProxyType.SOCKS5,
            address,
            proxy.port,
            username=proxy.username,
            password=proxy.password,
            rdns=True,
        )
        try:
            return await way.connect(origin.host, origin.port, timeout=self._connect_s)
        except python_socks.ProxyError as error:
            raise ProxyRefused(str(error)) from None

    async def _through_http(
        self, sock: socket.socket, proxy: Proxy, origin: RequestOrigin, make: Callable[[], P]
    ) -> P:
        entry = origin._replace(tls=proxy.scheme == "https", host=proxy.host, port=proxy.port)
        if not origin.tls:
            return await self._begin(sock, entry, make)  # plain requests name their target
        loop = asyncio.get_running_loop()
        tunnel = await self._begin(sock, entry, Tunnel)
        transport = tunnel.transport
        try:
            await tunnel.open(proxy, origin.host, origin.port)
            protocol = make()
            inner = await loop.start_tls(
                transport, protocol, self._tls, server_hostname=_certified(origin.host)
            )
            assert inner is not None
            protocol.connection_made(inner)
        except BaseException:
            transport.abort()
            raise
        return protocol


def is_own(address: str) -> bool:
    """Return whether an address belongs to this machine: a packet to it would come from the same
    address. No packet is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address.partition("%")[0], DISCARD))
            return bool(probe.getsockname()[0] == probe.getpeername()[0])
    except OSError:  # no way there
        return False


def _refusal(host: str, address: str, reason: str) -> str:
    """Why not; the reason begins with the address, which may be all that the host's name is."""
    return reason if host.strip("[]") == address else f"{host}: {reason}"


@lru_cache(maxsize=4)
def tls_context(*, verify: bool, http2: bool = False) -> ssl.SSLContext:
    """Return a TLS context, which offers HTTP/2 if `http2` is set. Share it: it contains the
    certificates of all authorities."""
    context = client_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])
    return context


def _certified(host: str) -> str:
    """The name that a certificate is for; the root's dot at the end is never in it."""
    return host.removesuffix(".")


def _tls_reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not valid: {error.verify_message}"
    reason = (error.reason or str(error) or "no agreement").replace("_", " ").lower()
    return f"could not agree on TLS: {reason}"
