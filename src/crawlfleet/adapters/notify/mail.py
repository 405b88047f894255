"""Hands letters to people to the mail server that the settings name."""

import asyncio
import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate
from typing import Final

from crawlfleet.model.settings import MailSettings
from crawlfleet.ports.sender import OutgoingMessage, SendResult, recipients
from crawlfleet.tls import client_context

AT_ONCE: Final = 2


class MailSender:
    """Implements `crawlfleet.ports.sender.Sender` for `mailto:`.

    A letter carries the delivery's id as its Message-ID, so that one that is sent twice is
    recognised. The server is the operator's own choice: no guard stands before it.
    """

    def __init__(self, settings: MailSettings) -> None:
        self._settings = settings
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def send(self, message: OutgoingMessage) -> SendResult:
        if not self._settings.host:
            return SendResult(
                error="there is no mail server; set `mail.host` of the master", is_final=True
            )
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with self._turns:
                await asyncio.to_thread(self._hand_over, _letter(message, self._settings.sender))
        except smtplib.SMTPResponseException as error:
            said = error.smtp_error
            text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
            # Who signs in wrongly is set right by the operator, and the letter is still wanted.
            code = 0 if isinstance(error, smtplib.SMTPAuthenticationError) else error.smtp_code
            return _failed(f"the mail server said {error.smtp_code} {text}", code)
        except smtplib.SMTPRecipientsRefused as error:
            who = ", ".join(sorted(error.recipients))
            code = max((code for code, _ in error.recipients.values()), default=0)
            return _failed(f"the mail server refuses {who} ({code})", code)
        except (smtplib.SMTPException, ssl.SSLError, OSError) as error:
            return _failed(f"the mail server cannot be used: {error}")
        except ValueError:
            # Its text may hold a piece of the password.
            return _failed(
                "the mail server cannot be used: are `mail.host`, `mail.user` and "
                "`mail.password` plain ASCII?"
            )
        return SendResult(delivered=True, elapsed_s=loop.time() - begun)

    async def close(self) -> None:
        """Do nothing: no connection is kept open."""

    def _hand_over(self, letter: EmailMessage) -> None:
        settings = self._settings
        context = client_context() if settings.security != "none" else None
        if settings.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                settings.host, settings.port, timeout=settings.timeout_s, context=context
            )
        else:
            server = smtplib.SMTP(settings.host, settings.port, timeout=settings.timeout_s)
        with server:
            if settings.security == "starttls":
                server.starttls(context=context)
            if settings.user:
                server.login(settings.user, settings.password)
            refused = server.send_message(letter)
        if refused:
            raise smtplib.SMTPRecipientsRefused(refused)


def _letter(message: OutgoingMessage, sender: str) -> EmailMessage:
    letter = EmailMessage()
    letter["From"] = sender
    letter["To"] = ", ".join(recipients(message.url))
    letter["Subject"] = message.title
    letter["Date"] = formatdate(usegmt=True)
    letter["Message-ID"] = f"<{message.id}@crawlfleet>"
    letter["Auto-Submitted"] = "auto-generated"
    letter.set_content(message.body.decode())
    return letter


def _failed(reason: str, code: int = 0) -> SendResult:
    # 5xx: this letter will never be taken, whoever asks.
    return SendResult(status=code, error=reason, is_final=500 <= code < 600)
