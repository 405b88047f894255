"""Carries deliveries to web addresses, through the guard that fetches pages go through.

One request for each: no redirect is followed, no cookie kept, and of the answer only its status
and its Retry-After matter.
"""

import time
from typing import Final

from crawlfleet.crawl.engine.outcomes import asked_to_wait
from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.model.crawl.parameters import Fetching, Limits, Outcome
from crawlfleet.ports.sender import OutgoingMessage, SendResult

MAX_ANSWER_BYTES: Final = 4_096
CONNECTIONS: Final = 64
PER_HOST: Final = 16
READ: Final = frozenset({Outcome.OK, Outcome.TOO_LARGE, Outcome.BAD_CONTENT})
"""Outcomes with an answer, whatever its body is."""


class HttpSender:
    """Implements `crawlfleet.ports.sender.Sender` for `http:` and `https:`."""

    def __init__(self, *, allow_private: bool, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._fetcher = Fetcher(
            limits=Limits(
                connect_s=timeout_s, first_byte_s=timeout_s, idle_s=timeout_s, total_s=timeout_s
            ),
            fetching=Fetching(http2=False),
            allow_private=allow_private,
            connections=CONNECTIONS,
            per_host=PER_HOST,
        )

    async def send(self, message: OutgoingMessage) -> SendResult:
        answer = await self._fetcher.fetch(
            FetchRequest(
                url=message.url,
                method="POST",
                headers=message.headers,
                body=message.body,
                max_body_bytes=MAX_ANSWER_BYTES,
                cut=True,
            )
        )
        if 200 <= answer.status < 300 and answer.outcome in READ:
            return SendResult(delivered=True, status=answer.status, elapsed_s=answer.elapsed_s)
        return SendResult(
            status=answer.status,
            error=self._reason(answer),
            is_final=answer.outcome is Outcome.REFUSED,
            retry_after_s=asked_to_wait(answer, time.time()),
            elapsed_s=answer.elapsed_s,
        )

    async def close(self) -> None:
        await self._fetcher.close()

    def _reason(self, answer: Fetched) -> str:
        match answer.outcome:
            case Outcome.REFUSED:
                return (
                    f"not connected: {answer.reason}; `webhooks.allow_private` opens loopback, "
                    "private and link-local addresses, and no others"
                )
            case Outcome.REDIRECT:
                return f"answered {answer.status}; redirects are not followed, change the URL"
            case Outcome.TIMEOUT:
                return f"no whole answer within {self._timeout_s:g} s"
        if answer.status >= 300:
            return f"answered {answer.status}"
        return answer.reason or f"ended as {answer.outcome}"
