"""The exceptions of crawlfleet: misuse by the caller, and trouble outside of it.

An expected "no" is a return value, not an exception. `retryable` says whether the same call may
succeed later without any change by the caller.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec


class FieldProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem with one field of a request, and its remedy."""

    field: str
    message: str
    remedy: str
    value: Any = None


class CrawlfleetError(Exception):
    """The root of all errors that crawlfleet raises on purpose."""

    retryable: ClassVar[bool] = False
    retry_after_s: float | None = None
    """Seconds to wait before the next attempt; `None` when the server named no time."""


class InvalidRequest(CrawlfleetError):
    """A request that cannot be accepted as it is; nothing was changed."""

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{p.field}: {p.message}" for p in self.problems))


class NotFound(CrawlfleetError):
    """The named thing does not exist (any more)."""

    def __init__(self, kind: str, id: str) -> None:
        self.kind, self.id = kind, id
        super().__init__(f"there is no {kind} {id!r}")


class Conflict(CrawlfleetError):
    """The request contradicts the present state; the message says which state that is."""


class PreconditionFailed(CrawlfleetError):
    """The thing has changed since the version on which the caller based the request."""


class Refused(CrawlfleetError):
    """The caller is known, but may not do this."""


class Unauthenticated(CrawlfleetError):
    """The caller did not show a valid key. `reason` is a word by which metrics count such
    requests."""

    def __init__(self, message: str, reason: str = "unknown_key") -> None:
        self.reason = reason
        super().__init__(message)


class LockedOut(CrawlfleetError):
    """The caller's address is locked out for `wait_s` seconds: too many wrong keys came from it."""

    retryable = True

    def __init__(self, message: str, wait_s: float) -> None:
        self.wait_s = wait_s
        super().__init__(message)


class StoreUnavailable(CrawlfleetError):
    """The store did not accept or return the data of a request; the outcome may be unknown."""

    retryable = True


class FrontierLost(StoreUnavailable):
    """The state of a crawl in its frontier is lost, wholly or in part: the crawl is not finished
    and cannot continue. The message says what to do."""

    retryable = False


class FrontierRefused(CrawlfleetError):
    """The master rejects a request to a frontier; the message says why."""


class SinkUnusable(CrawlfleetError):
    """Output cannot go where it should; the message names the place and the remedy."""


class ReaderUnavailable(CrawlfleetError):
    """Pages cannot be read, for a reason of this machine; the message says which."""

    retryable = True


class OutputUnavailable(CrawlfleetError):
    """The storage of crawls' output rejected a write or returned nothing; the message says why."""

    retryable = True


class RunEnded(OutputUnavailable):
    """A run of output was ended elsewhere, as when its frontier was restored: the part of it that
    counts is settled, and no more can be added."""

    retryable = False


class LocksUnavailable(CrawlfleetError):
    """The service that keeps the locks did not answer; the outcome may be unknown."""

    retryable = True


class LockBusy(CrawlfleetError):
    """Another holder kept the lock for longer than the caller would wait."""

    retryable = True


class LockLost(CrawlfleetError):
    """The lock may have been lost; another holder may now use the thing that it guards."""

    retryable = True


class LedgerUnavailable(CrawlfleetError):
    """The fleet's politeness ledger did not answer, or is not there at all."""

    retryable = True


class Busy(CrawlfleetError):
    """The master is at its limit for such requests."""

    retryable = True


class StoreTooNew(CrawlfleetError):
    """The store was written by a newer crawlfleet; this one must not touch it."""


class BackupUnusable(CrawlfleetError):
    """A file is not a backup, is damaged, or was written by a newer program."""


class LeadershipLost(CrawlfleetError):
    """This master leads no longer; it goes on as a follower."""


class MasterUnreachable(CrawlfleetError):
    """The master did not answer; it may or may not have acted on the request."""

    retryable = True
    was_sent = True
    """False when the request certainly never left the client; then the master has done nothing."""


class MasterUnable(MasterUnreachable):
    """The master answered that it cannot work now, and why, such as for want of a store."""


class MasterFailed(MasterUnreachable):
    """The master has a defect, and may or may not have acted on the request; see its log."""

    retryable = False


class ConfigError(CrawlfleetError):
    """A setting cannot be used; the message names it, where it came from, and the remedy."""


class PluginError(CrawlfleetError):
    """A plug-in is missing, or is not what its entry point promises."""


class SandboxFailed(CrawlfleetError):
    """A process could not be confined as it has to be; nothing of it runs."""

    retryable = True
