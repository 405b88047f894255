"""Authentication: the people, programs and nodes that a secret belongs to."""

from collections.abc import Callable

from crawlfleet.control.access.keys import Keys, Principal
from crawlfleet.control.access.sign_ins import SignIns
from crawlfleet.control.state.follow import MasterFollower
from crawlfleet.errors import Unauthenticated


class Authentication:
    """Asks the keys of this master, and catches up with other masters before it refuses."""

    def __init__(self, *, keys: Keys, sign_ins: SignIns, follower: MasterFollower) -> None:
        self._keys = keys
        self._sign_ins = sign_ins
        self._follower = follower

    async def authenticate(self, secret: str, *, address: str = "") -> Principal:
        """Return the holder of a secret, also if another master gave it away a moment ago.

        Raises `Unauthenticated` if there is none (any more). With an address the use is remembered.
        """
        return await self._known(lambda: self._keys.authenticate(secret, address=address))

    async def authenticate_session(self, secret: str, *, address: str = "") -> Principal:
        """Return the holder of the secret of a browser's session, as `authenticate` does."""
        return await self._known(lambda: self._sign_ins.authenticate(secret, address=address))

    async def authenticate_link(self, secret: str) -> Principal:
        """Return the maker of a link by what stands behind its `#`, as `authenticate` does."""
        return await self._known(lambda: self._sign_ins.authenticate_link(secret))

    async def _known(self, authenticate: Callable[[], Principal]) -> Principal:
        try:
            return authenticate()
        except Unauthenticated:
            await self._follower.look()
            return authenticate()
