"""TLS from files: the certificate of a master, and the trust of clients and workers in it.

A master's certificate is read again when its files change, without closing a connection. A client
or worker trusts an authority (`ca`), or one public key by its fingerprint (`pin`): a join token can
carry that, so that a new node needs no file to recognise its master.
"""

import asyncio
import base64
import hashlib
import re
import ssl
from pathlib import Path
from typing import Any, Final

import msgspec

from crawlfleet.errors import ConfigError
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
LOOK_EVERY_S: Final = 5.0
_PINNED: Final = re.compile(r"(?P<secret>.+)\.sha256-(?P<pin>[A-Za-z0-9_-]{43})")


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """The certificates that a client or worker trusts as a master's, and its own certificate.

    With nothing set, the client trusts the authorities of the machine and shows no certificate.
    """

    ca: str = ""
    """File of the authorities to believe, in place of the machine's."""
    cert: str = ""
    """File of the certificate to show to a master that asks for one."""
    key: str = ""
    """File of its key, if that is not in the same file."""
    pin: str = ""
    """Fingerprint of the only public key to believe; then names and authorities may be any."""
    any_name: bool = False
    """A certificate of the authority may have any name; for masters that were discovered."""

    def context(self) -> ssl.SSLContext:
        """Return a context for new connections; raises `ConfigError` that names a file that cannot
        be used."""
        context = client_context()
        if self.ca:
            # Not those of the machine besides.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            _believe(context, self.ca)
        if self.cert:
            _show(context, self.cert, self.key)
        if self.pin or self.any_name:
            context.check_hostname = False
        if self.pin:
            context.verify_mode = ssl.CERT_REQUIRED if self.ca else ssl.CERT_NONE
            context.sslobject_class = _pinned(self.pin)
        return context

    def stamp(self) -> tuple[Any, ...]:
        """Return a value that changes when one of the files does."""
        return _stamp(self.ca, self.cert, self.key)


class ServerCertificate:
    """A master's own certificate, and the authorities whose client certificates it accepts.

    Each handshake uses the files as they were read last. Files that cannot be used, such as a
    certificate whose key has not been replaced yet, are logged, and the previous ones stay in use.
    """

    def __init__(self, cert: str, key: str = "", client_ca: str = "") -> None:
        self._cert, self._key, self._client_ca = cert, key, client_ca
        self.context = self._read()
        self._present = self.context
        self._stamp = self._looked()
        self.context.sni_callback = self._answer

    async def watch(self) -> None:
        """Read the files again each time they change; runs until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if self._looked() != self._stamp:
                self.reload()

    def reload(self) -> None:
        """Read the files again; the next handshake uses them."""
        self._stamp = self._looked()
        try:
            self._present = self._read()
        except ConfigError as error:
            log.error("the certificate stays as it was", error=str(error))
        else:
            log.info("the certificate was read again", file=self._cert)

    def _answer(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        connection.context = self._present

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _show(context, self._cert, self._key)
        if self._client_ca:
            _believe(context, self._client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
            # Each connection shows its certificate anew: authorities may have been replaced.
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET
        return context

    def _looked(self) -> tuple[Any, ...]:
        return _stamp(self._cert, self._key, self._client_ca)


def pin_of(cert: str) -> str:
    """The fingerprint of the public key in a certificate file; it outlasts renewals."""
    try:
        text = Path(cert).read_text()
        first = text[text.index("-----BEGIN CERTIFICATE-----") :]
        end = first.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")
        return _pin(ssl.PEM_cert_to_DER_cert(first[:end]))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{cert} holds no certificate in PEM form: {error}") from error


def with_pin(secret: str, pin: str) -> str:
    """A join token that also says by which key its master is known."""
    return f"{secret}.sha256-{pin}" if pin else secret


def without_pin(token: str) -> tuple[str, str]:
    """The secret of a join token, and the fingerprint in it, or nothing."""
    found = _PINNED.fullmatch(token)
    return (found["secret"], found["pin"]) if found else (token, "")


def _pinned(pin: str) -> type[ssl.SSLObject]:
    class Pinned(ssl.SSLObject):
        """Looks at the master's key before a single byte is sent to it."""

        def do_handshake(self) -> None:
            super().do_handshake()
            shown = self.getpeercert(binary_form=True)
            if shown is None or _pin(shown) != pin:
                raise ssl.SSLCertVerificationError(
                    "its public key is not the one that the join token names"
                )

    return Pinned


def _pin(certificate: bytes) -> str:
    digest = hashlib.sha256(_public_key(certificate)).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _public_key(certificate: bytes) -> bytes:
    """The SubjectPublicKeyInfo of a certificate in DER; `ValueError` if there is none."""
    begin, _ = _content(certificate, 0)  # Certificate
    at, end = _content(certificate, begin)  # TBSCertificate
    parts = []
    while at < end:
        _, following = _content(certificate, at)
        parts.append((certificate[at], certificate[at:following]))
        at = following
    if parts and parts[0][0] == 0xA0:  # version
        del parts[0]
    # serialNumber, signature, issuer, validity, subject, subjectPublicKeyInfo
    if len(parts) < 6:
        raise ValueError("not an X.509 certificate")
    return parts[5][1]


def _content(der: bytes, at: int) -> tuple[int, int]:
    """Return where the content of the DER element at offset `at` begins and ends; `ValueError` when
    it is cut off."""
    try:
        length, begin = der[at + 1], at + 2
    except IndexError:
        raise ValueError("not an X.509 certificate") from None
    if length & 0x80:
        more = length & 0x7F
        length, begin = int.from_bytes(der[begin : begin + more], "big"), begin + more
    if begin + length > len(der):
        raise ValueError("not an X.509 certificate")
    return begin, begin + length


def _show(context: ssl.SSLContext, cert: str, key: str) -> None:
    try:
        context.load_cert_chain(cert, key or None, password=_no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"the certificate {cert} with the key {key or cert} cannot be used: {error}; give "
            "files in PEM form that belong together and are not encrypted"
        ) from error


def client_context(ca: str | None = None) -> ssl.SSLContext:
    """Return a context for connections to servers with certificates of this machine's authorities,
    or of those in the file `ca`.

    It behaves alike on every Python: from 3.13 on the default refuses authorities whose certificate
    does not say what its key is for, as that of many a company does not.
    """
    context = ssl.create_default_context(cafile=ca)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def _believe(context: ssl.SSLContext, ca: str) -> None:
    try:
        context.load_verify_locations(ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the authorities in {ca} cannot be used: {error}; give a file of certificates in PEM "
            "form"
        ) from error


def _stamp(*files: str) -> tuple[Any, ...]:
    stamps: list[Any] = []
    for file in files:
        try:
            found = Path(file).stat() if file else None
        except OSError:
            found = None
        stamps.append(None if found is None else (found.st_mtime_ns, found.st_ino, found.st_size))
    return tuple(stamps)


def check_trust(trust: Trust, master_url: str | None) -> None:
    """Raise `ConfigError` if a join token could fall into the wrong hands."""
    if master_url is None and not trust.pin and not trust.ca:
        raise ConfigError(
            "worker.discover: anybody can announce a master, so this worker must know how to tell "
            "yours: use a join token that names its key (`crawlfleet join-tokens create` at a "
            "master with TLS), or give the authority of its certificate with --ca"
        )
    urls = (master_url or "").split(",") if master_url else ()
    if trust.pin and not all(each.startswith("https:") for each in urls):
        raise ConfigError(
            f"this join token names the key of its master, but {master_url} is without TLS; "
            "give --master https://…"
        )
