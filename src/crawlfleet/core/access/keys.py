"""API keys and join tokens: checks whether a key is still valid, makes revoked and rotated versions
of it, and checks requests for keys.

Secrets are 256 random bits, so a plain SHA-256 is the right way to store them: a slow hash protects
what people can remember, and would cost each request what it costs a guesser. Nobody guesses these.
"""

import re
from collections.abc import Container, Iterator
from typing import Final

import msgspec

from crawlfleet.errors import FieldProblem
from crawlfleet.model.change import NEVER, Claim
from crawlfleet.model.key import CONFIGURED, ApiKey, Role
from crawlfleet.model.requests import JoinTokenRequest, KeyRequest

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
SCOPE: Final = "key-name"
"""Scope in which the names of keys are claimed."""
_NAME_REMEDY: Final = (
    "use letters, digits, dot, dash and underscore, at most 64, beginning with a letter or digit"
)


def why_not(key: ApiKey, digest: str, *, now: float) -> str | None:
    """Return the code of the reason why a secret with this digest is not valid (any more), or
    `None`."""
    if key.revoked_at is not None:
        return "revoked_key"
    if key.expires_at is not None and key.expires_at <= now:
        return "expired_key"
    if digest != key.secret_hash and key.old_expires_at <= now:
        return "rotated_key"
    if key.max_uses is not None and key.uses >= key.max_uses:
        return "used_up"
    return None


def why_over(held: ApiKey, parent: ApiKey | None, *, now: float) -> str | None:
    """Return the code of the reason why a session or a link of a key has ended, or `None`."""
    if parent is None or (held.role, held.project_id) != (parent.role, parent.project_id):
        return "ended_session"
    if why_not(held, held.secret_hash, now=now) is not None:
        return "ended_session"
    if held.parent_hash not in parent.hashes:
        return "rotated_key"
    return why_not(parent, held.parent_hash, now=now)


def is_good(key: ApiKey, digest: str, *, now: float) -> bool:
    """Return whether a caller with this secret (given by its digest) may still authenticate."""
    return digest in key.hashes and why_not(key, digest, now=now) is None


def is_live(key: ApiKey, *, now: float) -> bool:
    """Return whether the key still authenticates callers with its newest secret."""
    return is_good(key, key.secret_hash, now=now)


def status_of(key: ApiKey, *, now: float) -> str:
    """Return `live`, `expired`, `revoked` or `used_up`."""
    why = why_not(key, key.secret_hash, now=now)
    return "live" if why is None else why.removesuffix("_key")


def revoke(key: ApiKey, *, now: float) -> ApiKey:
    """Return the key as revoked from now on."""
    return msgspec.structs.replace(key, revoked_at=now, old_expires_at=0.0, version=key.version + 1)


def rotate(
    key: ApiKey, digest: str, *, grace_s: float, expires_at: float | None, now: float
) -> ApiKey:
    """Return the key with a new secret; the old secret stays valid for `grace_s`, but not beyond
    the key's own expiry.

    The old secret is stored in any case, so that a caller that still uses it gets the reason, and
    is not treated as guessing.
    """
    return msgspec.structs.replace(
        key,
        secret_hash=digest,
        rotated_at=now,
        old_secret_hash=key.secret_hash,
        old_expires_at=now + grace_s if grace_s > 0 else 0.0,
        expires_at=expires_at,
        version=key.version + 1,
    )


def claim_name(key: ApiKey, *, now: float) -> Claim:
    """Return the claim of the key's name, which lasts as long as the key lives."""
    if key.revoked_at is not None:
        until = key.revoked_at
    else:
        until = NEVER if key.expires_at is None else key.expires_at
    return Claim(scope=SCOPE, key=key.name, holder=key.id, at=now, expires_at=until)


def key_problems(request: KeyRequest) -> Iterator[FieldProblem]:
    """Yield the problems of a request for a key."""
    yield from _name_problems(request.name)
    if request.project_id is not None:
        if not NAME.match(request.project_id):
            yield _problem("project_id", request.project_id, "is not a valid name", _NAME_REMEDY)
        if request.role is Role.ADMIN:
            yield _problem(
                "role",
                str(request.role),
                "looks after the whole fleet, which no key of one project may",
                "use viewer or operator, or leave out project_id",
            )
    if request.role is Role.NODE:
        yield _problem(
            "role",
            str(request.role),
            "is for nodes, which make their own tokens when they join",
            "use viewer, operator or admin; for nodes make a join token",
        )


def join_token_problems(
    request: JoinTokenRequest, clusters: Container[str]
) -> Iterator[FieldProblem]:
    """Yield the problems of a request for a join token."""
    if request.name is not None:
        yield from _name_problems(request.name)
    if request.cluster_id not in clusters:
        yield _problem(
            "cluster_id", request.cluster_id, "is not a cluster", "name a cluster that exists"
        )


def _name_problems(name: str) -> Iterator[FieldProblem]:
    if not NAME.match(name):
        yield _problem("name", name, "is not a valid name", _NAME_REMEDY)
    elif name in CONFIGURED:
        yield _problem(
            "name", name, "is the master's own, made from its configuration", "use another name"
        )


def _problem(field: str, value: str, message: str, remedy: str) -> FieldProblem:
    return FieldProblem(field=field, value=value, message=message, remedy=remedy)
