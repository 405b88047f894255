"""Listens as a master: its socket, its URL and its TLS certificate."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator
from ipaddress import ip_address

from crawlfleet.errors import ConfigError, CrawlfleetError
from crawlfleet.event_loop import report_failure
from crawlfleet.model.settings import ServerSettings
from crawlfleet.tls import ServerCertificate


def is_any(host: str) -> bool:
    """Return whether the host stands for all addresses of a machine."""
    return host in {"", "0.0.0.0", "::"}  # noqa: S104 (compared, not bound)


def url_of(host: str, port: int, *, tls: bool, anywhere: str) -> str:
    """Return the URL of a server at this host and port; `anywhere` is the name to use when the
    server listens on all addresses."""
    name = anywhere if is_any(host) else host
    return f"{'https' if tls else 'http'}://{f'[{name}]' if ':' in name else name}:{port}"


def complete_url(url: str) -> str:
    """Return the URL in full: `host:port` is short for `http://host:port`. Several masters are
    separated by commas."""
    return ",".join(
        (each if "://" in each else f"http://{each}").rstrip("/")
        for each in map(str.strip, url.split(","))
        if each
    )


def check_exposure(server: ServerSettings) -> None:
    """Raise `ConfigError` if keys and results would travel unencrypted, unless `plain_http` permits
    it."""
    if server.tls_cert or server.plain_http or _is_loopback(server.host):
        return
    raise ConfigError(
        f"server.host = {server.host!r}: others would reach this master without TLS, and could "
        "read keys and results on the way. Give --tls-cert and --tls-key, or say --plain-http if "
        "a proxy does TLS, or nobody else is in that network"
    )


def _is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server on this host; `False` for an unknown
    name."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ip_address(each[4][0]).is_loopback for each in found)


def certificate_of(server: ServerSettings) -> ServerCertificate | None:
    """Return the master's TLS certificate; `None` when it serves plain HTTP."""
    if not server.tls_cert:
        return None
    return ServerCertificate(server.tls_cert, server.tls_key, server.tls_client_ca)


@contextlib.contextmanager
def renewing(certificate: ServerCertificate | None) -> Iterator[None]:
    """Read the certificate again when its files change and on SIGHUP, until the block ends."""
    if certificate is None:
        yield
        return
    loop = asyncio.get_running_loop()
    watching = asyncio.create_task(certificate.watch(), name="certificate")
    watching.add_done_callback(report_failure)
    loop.add_signal_handler(signal.SIGHUP, certificate.reload)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        watching.cancel()


def address_of(server: ServerSettings, port: int) -> str:
    """Return the URL by which other machines reach a master that listens on this port."""
    return url_of(server.host, port, tls=bool(server.tls_cert), anywhere=socket.gethostname())


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises `CrawlfleetError` when the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise CrawlfleetError(
            f"cannot listen on {host}:{port}: {error.strerror}; "
            "stop what listens there, or choose another with --port"
        ) from error
    listening.listen(1024)
    return listening
