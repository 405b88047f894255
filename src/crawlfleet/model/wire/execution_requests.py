"""What an execution asks of the fleet while it works, by way of its node: locks and politeness."""

import msgspec

from crawlfleet.model.wire.locks import LockAsk, LockTold
from crawlfleet.model.wire.politeness import LedgerAsk, LedgerTold


class Inquiry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Exactly one of these; may be said again when no answer came."""

    lock: LockAsk | None = None
    ledger: LedgerAsk | None = None


class InquiryCall(Inquiry, frozen=True, kw_only=True, omit_defaults=True):
    """The same from a node to the master, in the name of an execution that it holds."""

    session_id: str
    execution_id: str
    token: int


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer, of the same kind; or why there is none."""

    lock: LockTold | None = None
    ledger: LedgerTold | None = None
    refusal: str = ""
    is_passing: bool = False
    """Whether asking again later may help."""
