"""Problems that need attention, with their remedies."""

from typing import Annotated, Final

import msgspec

from crawlfleet.model.translatable import Phrase, Said

HIGH, MEDIUM, LOW = "high", "medium", "low"
SEVERITIES: Final = (HIGH, MEDIUM, LOW)


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The subject of a concern."""

    kind: str
    """`node`, `task`, `crawl`, `host`, `dead-letters`, `tasks` or `nodes`."""
    id: str = ""
    """Id of the subject; empty where the concern is about several."""


class Concern(msgspec.Struct, frozen=True, kw_only=True):
    """A problem that needs attention."""

    severity: Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(SEVERITIES)})]
    """`high`: work does not get done; `medium`: work may soon not get done; `low`: for your
    information."""
    kind: str
    """Stable code for programs, such as `node_unresponsive` or `nothing_can_run`."""
    subject: Subject
    message: str
    remedy: str
    count: int = 1
    """Number of things with this problem."""
    values: dict[str, Said] = {}
    """Values in the message, such as the `name` of a node; empty where it is about several."""
    because: tuple[Phrase, ...] = ()
    """Causes, where they are known: missing requirements of nodes (`task_type`, with `n` nodes), or
    problems of a node (`memory`, with `value` and `limit`)."""


class AttentionList(msgspec.Struct, frozen=True, kw_only=True):
    """All problems that need attention, the most severe first."""

    items: tuple[Concern, ...]
