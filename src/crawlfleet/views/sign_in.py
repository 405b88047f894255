"""What a browser sends and gets when somebody signs in."""

from datetime import datetime
from typing import Annotated

import msgspec

from crawlfleet.model.key import Role


class SignInRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `key`, or the `link` that somebody with a key has made: one of the two."""

    key: str | None = None
    link: str | None = None
    """What stands behind the `#` of the link."""


class SessionView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who asks, as what, and for how long."""

    name: str
    """Of the key."""
    role: Annotated[str, msgspec.Meta(extra_json_schema={"enum": [str(each) for each in Role]})]
    projects: tuple[str, ...] | None = None
    """The only projects that there are for this key; all of them when not set."""
    expires_at: datetime | None = None
    """When the session ends, or the key that was shown instead; never when not set."""
    csrf: str = ""
    """What this session sends as `X-Crawlfleet-Csrf` with whatever changes something."""


class SessionLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that signs one browser in, once."""

    path: str
    """The link, without the address of the master."""
    token: str
    """What stands behind the `#` of the link."""
    expires_at: datetime
