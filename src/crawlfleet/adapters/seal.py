"""Seals values with AES-GCM, by a key that lies beside the store and not in it."""

import base64
import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from crawlfleet.errors import ConfigError
from crawlfleet.ports.seal import Unsealable
from crawlfleet.private_file import hold, write_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
FORM: Final = "1"
"""Format of sealed values, before the first point: AES-256-GCM, nonce and text in base64."""
_HEX: Final = re.compile(r"[0-9a-fA-F]{64}\Z")
_SAME_KEY: Final = (
    "give every master the same `CRAWLFLEET_SECRETS_KEY`, or the same key file, or set the secret "
    "again"
)


class KeySeal:
    """Implements `crawlfleet.ports.seal.Seal`."""

    def __init__(self, file: Path, *, key: str = "") -> None:
        """The key is `key`, 64 hexadecimal digits, or in the `file`, which is made when the first
        value is closed. Raises `ConfigError` for a key that is none."""
        if key and not _HEX.match(key):
            raise ConfigError(
                "CRAWLFLEET_SECRETS_KEY: this is no key; use 64 hexadecimal digits, such as "
                "`openssl rand -hex 32` prints"
            )
        self._file = file
        self._known = bytes.fromhex(key)

    def close(self, value: str, about: str) -> str:
        key = self._key(make=True)
        nonce = os.urandom(NONCE_BYTES)
        text = _cipher(key).encrypt(nonce, value.encode(), _bound(about))
        return f"{FORM}.{_mark(key)}.{base64.b64encode(nonce + text).decode()}"

    def open(self, sealed: str, about: str) -> str:
        from cryptography.exceptions import InvalidTag

        form, _, rest = sealed.partition(".")
        mark, _, coded = rest.partition(".")
        if form != FORM:
            raise Unsealable(
                f"it was sealed by a newer crawlfleet (form {form!r}); update this one"
            )
        key = self._key()
        if mark != _mark(key):
            raise Unsealable(f"it was sealed with another key; {_SAME_KEY}")
        try:
            data = base64.b64decode(coded, validate=True)
            nonce, text = data[:NONCE_BYTES], data[NONCE_BYTES:]
            return _cipher(key).decrypt(nonce, text, _bound(about)).decode()
        except (InvalidTag, ValueError):
            raise Unsealable("what is stored of it is spoilt; set the secret again") from None

    def _key(self, *, make: bool = False) -> bytes:
        if self._known:
            return self._known
        try:
            if make and not self._file.exists():
                self._make()
            text = self._file.read_text().strip()
        except FileNotFoundError:
            raise Unsealable(f"there is no key at {self._file}; {_SAME_KEY}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise Unsealable(f"the key at {self._file} cannot be used: {error}") from error
        if not _HEX.match(text):
            raise Unsealable(f"there is no key in {self._file}: it has 64 hexadecimal digits")
        self._known = bytes.fromhex(text)
        return self._known

    def _make(self) -> None:
        with hold(self._file.with_suffix(".lock"), busy=f"{self._file} is just being made"):
            if not self._file.exists():
                write_private(self._file, os.urandom(KEY_BYTES).hex().encode() + b"\n")


def _cipher(key: bytes) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # most masters never need it

    return AESGCM(key)


def _mark(key: bytes) -> str:
    """Return a mark that tells keys apart, and reveals nothing about them."""
    return hashlib.sha256(b"crawlfleet secrets key:" + key).hexdigest()[:8]


def _bound(about: str) -> bytes:
    return f"crawlfleet secret {about}".encode()
