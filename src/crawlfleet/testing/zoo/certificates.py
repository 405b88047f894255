"""Certificates for the zoo, made when it opens: good, expired, for another host, self-signed."""

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Final

from crawlfleet.tls import client_context

KINDS: Final = ("good", "expired", "wrong-host", "self-signed")
_AUTHORITY: Final = """
[ca]
default_ca = zoo
[zoo]
new_certs_dir = {folder}
database = {folder}/index
serial = {folder}/serial
default_md = sha256
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = supplied
"""


class OpensslMissing(Exception):
    """The program openssl, which makes the certificates, is not installed."""


class Certificates:
    """The zoo's own authority and the certificates of its servers. Needs the openssl program."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if shutil.which("openssl") is None:
            raise OpensslMissing("openssl is not installed; on Debian: apt-get install openssl")
        self._prepare()

    @property
    def authority(self) -> Path:
        """Path of the authority's certificate, which visitors trust."""
        return self._folder / "authority.pem"

    def server_context(self, kind: str, *, http2: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / f"{kind}.pem", self._folder / f"{kind}.key")
        context.set_alpn_protocols(["h2"] if http2 else ["http/1.1"])
        return context

    def client_context(self) -> ssl.SSLContext:
        """Return a client context that trusts only the zoo's authority."""
        context = client_context(str(self.authority))
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context

    def _prepare(self) -> None:
        (self._folder / "index").touch()
        (self._folder / "serial").write_text("01\n")
        (self._folder / "ca.conf").write_text(_AUTHORITY.format(folder=self._folder))
        self._issue("authority", "Zoo authority", "basicConstraints=critical,CA:TRUE")
        self._issue("self-signed", "localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        good, wrong = (
            "subjectAltName=DNS:localhost,IP:127.0.0.1,DNS:*.zoo.localhost",
            "subjectAltName=DNS:other.example",
        )
        self._sign("good", good, "20000101000000Z", "21000101000000Z")
        self._sign("expired", good, "20000101000000Z", "20010101000000Z")
        self._sign("wrong-host", wrong, "20000101000000Z", "21000101000000Z")

    def _issue(self, name: str, subject: str, extension: str, *, request: bool = False) -> None:
        self._openssl(
            *("req", "-new", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *(() if request else ("-x509", "-days", "30")),
            *("-subj", f"/CN={subject}", "-addext", extension),
            *("-keyout", f"{name}.key", "-out", f"{name}.csr" if request else f"{name}.pem"),
        )

    def _sign(self, name: str, extension: str, begins: str, ends: str) -> None:
        self._issue(name, name, extension, request=True)
        self._openssl(
            *("ca", "-batch", "-notext", "-config", "ca.conf", "-cert", "authority.pem"),
            *("-keyfile", "authority.key", "-startdate", begins, "-enddate", ends),
            *("-in", f"{name}.csr", "-out", f"{name}.pem"),
        )

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(  # noqa: S603 (written above)
            ["openssl", *arguments],  # noqa: S607
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode:
            raise OpensslMissing(f"openssl {arguments[0]} failed: {done.stderr[-500:]}")
