"""Letters, handed to a real mail server."""

import asyncio
from email import message_from_bytes
from email.message import Message
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from crawlfleet.adapters.notify.mail import MailSender
from crawlfleet.features.webhooks.rules.letters import letter_of
from crawlfleet.model.settings import MailSettings
from crawlfleet.ports.sender import OutgoingMessage, SendResult


class Letterbox:
    def __init__(self, answer: str = "250 OK") -> None:
        self._answer = answer
        self.letters: list[tuple[list[str], Message]] = []

    async def handle_DATA(self, _: SMTP, __: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        self.letters.append((envelope.rcpt_tos, message_from_bytes(envelope.content)))
        return self._answer


def send(
    box: Letterbox | None,
    change: dict[str, Any] | None = None,
    *,
    options: Any = None,
    **fields: Any,
) -> SendResult:
    """Send a letter to the box by a server with these options; without a box to a closed port."""
    parcel = OutgoingMessage(
        **{
            "id": "dlv-1",
            "url": "mailto:ann@example.org,bob@example.org",
            "title": "crawlfleet [FIRING] 2 Knoten schweigen",
            "body": "zwei Knoten schweigen – bitte ansehen\n".encode(),
            **fields,
        }
    )

    async def scene() -> SendResult:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: SMTP(box, **(options or {})), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        if box is None:
            server.close()
        settings = MailSettings(
            **{
                "host": "127.0.0.1",
                "port": port,
                "security": "none",
                "sender": "fleet@example.org",
                **(change or {}),
            }
        )
        try:
            return await MailSender(settings).send(parcel)
        finally:
            server.close()

    return asyncio.run(scene())


def test_a_letter_arrives_with_the_delivery_as_its_id() -> None:
    box = Letterbox()
    assert send(box).delivered
    ((recipients, letter),) = box.letters
    assert recipients == ["ann@example.org", "bob@example.org"]
    assert letter["From"] == "fleet@example.org"
    assert letter["Message-ID"] == "<dlv-1@crawlfleet>"
    assert letter["Subject"] == "crawlfleet [FIRING] 2 Knoten schweigen"
    payload = letter.get_payload(decode=True)
    assert isinstance(payload, bytes)
    assert "zwei Knoten schweigen – bitte ansehen" in payload.decode()


def test_white_space_between_the_recipients_does_no_harm() -> None:
    box = Letterbox()
    assert send(box, url="mailto:ann@example.org\n, bob@example.org").delivered
    ((recipients, letter),) = box.letters
    assert recipients == ["ann@example.org", "bob@example.org"]
    assert letter["To"] == "ann@example.org, bob@example.org"


@pytest.mark.parametrize(("answer", "final"), [("451 later", False), ("550 never", True)])
def test_what_the_server_says_decides_whether_it_is_tried_again(answer: str, final: bool) -> None:
    sent = send(Letterbox(answer))
    assert (sent.delivered, sent.is_final) == (False, final)
    assert answer.partition(" ")[0] in sent.error


def test_a_sign_in_is_used_and_a_wrong_one_told() -> None:
    def check(_: Any, __: Any, ___: Any, ____: Any, data: Any) -> AuthResult:
        return AuthResult(success=data.password == b"right", handled=False)

    box = Letterbox()
    options = {"authenticator": check, "auth_require_tls": False, "auth_required": True}
    assert send(box, {"user": "ann", "password": "right"}, options=options).delivered
    sent = send(box, {"user": "ann", "password": "wrong"}, options=options)
    assert not sent.delivered
    assert "535" in sent.error
    assert not sent.is_final
    assert "wrong" not in sent.error
    assert len(box.letters) == 1


def test_settings_that_cannot_be_said_to_a_server_are_a_failure_that_does_not_tell_them() -> None:
    options = {
        "authenticator": lambda *_: AuthResult(success=True),
        "auth_require_tls": False,
        "auth_required": True,
    }
    signed = send(Letterbox(), {"user": "ann", "password": "schlüssel"}, options=options)
    astray = send(Letterbox(), {"host": "mail..example"})
    for sent in (signed, astray):
        assert (sent.delivered, sent.is_final) == (False, False)
        assert "mail.password" in sent.error
        assert "ü" not in sent.error


def test_a_server_without_tls_is_not_given_a_letter_that_wants_it() -> None:
    box = Letterbox()
    sent = send(box, {"security": "starttls"})
    assert not sent.delivered
    assert not sent.is_final
    assert box.letters == []


def test_without_a_server_a_letter_is_given_up_with_the_remedy() -> None:
    sent = send(Letterbox(), {"host": ""})
    assert sent.is_final
    assert "mail.host" in sent.error
    gone = send(None)
    assert (gone.delivered, gone.is_final) == (False, False)


def test_nothing_in_an_event_can_begin_a_header() -> None:
    told = {
        "id": "dlv-1",
        "webhook": "ops",
        "event": {
            "kind": "task.failed",
            "subject": "task-1\r\nBcc: evil@example.org",
            "at": "2026-11-15T09:40:10Z",
            "cause": "x\ny: z",
            "to_state": "failed",
            "details": {"a\nb": "c\nd"},
        },
    }
    title, text = letter_of(told)
    box = Letterbox()
    assert send(box, title=title, body=text.encode()).delivered
    ((recipients, letter),) = box.letters
    assert len(recipients) == 2
    assert letter["Bcc"] is None
    assert "\n" not in title
    assert not any(line.startswith(("y: z", "d")) for line in text.splitlines())
