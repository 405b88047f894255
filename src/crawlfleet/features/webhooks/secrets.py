"""The secrets that deliveries are signed with: sealed before they reach the store, and opened for
the moment of signing."""

from typing import Final

import msgspec

from crawlfleet.errors import Conflict
from crawlfleet.features.webhooks.model import Format, Webhook
from crawlfleet.ports.seal import Seal, Unsealable

SEALED: Final = "sealed:"
"""Prefix of a sealed secret; a stored secret without it is in plain text."""


class WebhookSecrets:
    """Seals and opens the secrets of webhooks; without a seal, as in a simulation, they are stored
    in plain text."""

    def __init__(self, seal: Seal | None) -> None:
        self._seal = seal

    def closed(self, secret: str, webhook_id: str) -> str:
        """Return a webhook's secret as it is stored. Raises `Conflict` when this master cannot seal
        it."""
        if self._seal is None:
            return secret
        try:
            return SEALED + self._seal.close(secret, _about(webhook_id))
        except Unsealable as error:
            raise Conflict(f"this master cannot seal the webhook's secret: {error}") from None

    def opened(self, webhook: Webhook, now: float) -> Webhook:
        """Return the webhook with its secrets in plain text, for signing. Raises `Unsealable`."""
        if webhook.format is Format.EMAIL:
            return webhook
        try:
            secret = self._open(webhook.secret, webhook.id)
        except Unsealable as error:
            raise Unsealable(
                f"the webhook's secret cannot be read: {error} (`crawlfleet webhooks rotate "
                f"{webhook.name}`)"
            ) from None
        old, until = "", 0.0
        if now < webhook.old_until and webhook.old_secret:
            try:
                old, until = self._open(webhook.old_secret, webhook.id), webhook.old_until
            except Unsealable:
                # It was made with a key that is gone, and was replaced for that, perhaps.
                old, until = "", 0.0
        return msgspec.structs.replace(webhook, secret=secret, old_secret=old, old_until=until)

    def _open(self, stored: str, webhook_id: str) -> str:
        if not stored.startswith(SEALED):
            return stored
        if self._seal is None:
            raise Unsealable("this master has no key for secrets")
        return self._seal.open(stored.removeprefix(SEALED), _about(webhook_id))


def _about(webhook_id: str) -> str:
    return f"webhook/{webhook_id}"
