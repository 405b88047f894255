"""Who asks: the part of the control plane that knows people and programs by their secrets."""

from collections.abc import Callable

from crawlfleet.control.access.keys import Keys, Principal
from crawlfleet.control.access.sign_ins import SignIns
from crawlfleet.control.state.follow import MasterFollower
from crawlfleet.errors import Unauthenticated


class Authentication:
    """Asks the keys of this master, and looks again before it refuses anybody."""

    keys: Keys
    sign_ins: SignIns
    _following: MasterFollower

    async def authenticate(self, secret: str, *, address: str = "") -> Principal:
        """Who holds this secret, also if another master gave it away a moment ago.

        Raises `Unauthenticated` if nobody does (any more). With an address the use is remembered.
        """
        return await self._known(lambda: self.keys.authenticate(secret, address=address))

    async def authenticate_session(self, secret: str, *, address: str = "") -> Principal:
        """The same for the secret of a browser's session."""
        return await self._known(lambda: self.sign_ins.authenticate(secret, address=address))

    async def authenticate_link(self, secret: str) -> Principal:
        """The same for what stands behind the `#` of a link."""
        return await self._known(lambda: self.sign_ins.authenticate_link(secret))

    async def _known(self, authenticate: Callable[[], Principal]) -> Principal:
        try:
            return authenticate()
        except Unauthenticated:
            await self._following.look()
            return authenticate()
