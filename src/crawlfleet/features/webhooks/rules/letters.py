"""Events as e-mails: a line that says what happened, and the details below it."""

from typing import Any, Final

MAX_TITLE: Final = 150
MAX_VALUE: Final = 2_000


def letter_of(told: dict[str, Any]) -> tuple[str, str]:
    """The title and the text of a letter about a delivery's body."""
    event = told["event"]
    details: dict[str, Any] = event.get("details") or {}
    if str(event["kind"]).startswith("alert."):
        state = str(event["to_state"]).upper()
        title = f"[{state}] {details.get('summary') or event['subject']}"
    else:
        title = f"{event['kind']}: {event['subject']}"
    lines = [
        str(details.get("summary") or title),
        "",
        *_facts(
            {
                "what": event["kind"],
                "about": event["subject"],
                "when": event["at"],
                "why": event["cause"],
                "project": event.get("project_id"),
            }
        ),
        *_facts({name: value for name, value in details.items() if name != "summary"}),
        "",
        f"{told['webhook']}, {told['id']}",
    ]
    return _line(f"crawlfleet {title}")[:MAX_TITLE], "\n".join(lines) + "\n"


def _facts(values: dict[str, Any]) -> list[str]:
    return [
        f"{_line(name)}: {_line(_worded(value))[:MAX_VALUE]}"
        for name, value in values.items()
        if value not in (None, "", [], {})
    ]


def _worded(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _line(text: str) -> str:
    """Replace unprintable characters by spaces: they could begin another header, or a forged
    line."""
    return "".join(char if char.isprintable() else " " for char in text)
