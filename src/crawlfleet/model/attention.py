"""What ought to be looked at, and what to do about it."""

from typing import Annotated, Final

import msgspec

from crawlfleet.model.translatable import Phrase, Said

HIGH, MEDIUM, LOW = "high", "medium", "low"
SEVERITIES: Final = (HIGH, MEDIUM, LOW)


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What something is about."""

    kind: str
    """`node`, `task`, `crawl`, `host`, `dead-letters`, `tasks` or `nodes`."""
    id: str = ""
    """Of one of them; empty where it is about several."""


class Concern(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it should be."""

    severity: Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(SEVERITIES)})]
    """`high`: work does not get done; `medium`: it may soon not; `low`: good to know."""
    kind: str
    """A stable word for programs, such as `node_unresponsive` or `nothing_can_run`."""
    subject: Subject
    message: str
    remedy: str
    count: int = 1
    """How many things it stands for."""
    values: dict[str, Said] = {}
    """What the message names, such as the `name` of a node; none where it is about several."""
    because: tuple[Phrase, ...] = ()
    """Why, where that is known: what nodes lack (`task_type`, with `n` of them), or what is wrong
    with a node (`memory`, with `value` and `limit`)."""


class AttentionList(msgspec.Struct, frozen=True, kw_only=True):
    """All that ought to be looked at, the most pressing first."""

    items: tuple[Concern, ...]
