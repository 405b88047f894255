"""Reads pages within a limit of time, so that no page can stop a crawl.

Nothing can interrupt the HTML parser or the XPath engine from within, so a limit that holds is a
limit on a process. Small pages are read in this process, since none of them can take long. Large
pages, and all pages of a plan whose XPath may take long, are read in a reader process
(`crawl.extract.reader_process_main`). The kernel ends that process when a page has used up its time
or memory; the page is then `unreadable`, and the next one gets a new process.
"""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from crawlfleet.core.pages.xpath import needs_care
from crawlfleet.core.urls.robots_tags import PRODUCT
from crawlfleet.crawl.extract.page_reader import GZIP, PageReader
from crawlfleet.crawl.fetch.charset import UTF8
from crawlfleet.crawl.process_messages import decode, encode
from crawlfleet.errors import ReaderUnavailable
from crawlfleet.model.crawl.extraction import ExtractionPlan
from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.model.crawl.reading import Reading

LARGE: Final = 128_000
"""Size in bytes below which even the worst page is parsed in less than a second."""
READ_S: Final = 3.0
"""Limit of CPU seconds for any page; pages that people read take milliseconds."""
READ_S_PER_MB: Final = 2.0
"""Further seconds of CPU for each megabyte of a page."""
PATIENCE: Final = 10.0
"""Seconds of wall clock that one second of CPU may take on a busy machine."""
START_S: Final = 60.0
MODULE: Final = "crawlfleet.crawl.extract.reader_process_main"
LENGTH_BYTES: Final = 8
"""Number of bytes of the length before each message."""


class PageRequest(NamedTuple):
    """A page for the reader process to read. `cpu_s` is the limit of CPU time for it."""

    body: bytes
    """Body of the page as it came."""
    url: str
    status: int
    content_type: str
    robots_tags: Sequence[str]
    headers: Sequence[tuple[str, str]]
    cpu_s: float
    with_xpath: bool


class ReaderSettings(NamedTuple):
    """The first message to a reader process."""

    plan: ExtractionPlan
    product: str


class PageAnswer(NamedTuple):
    """The reader process's answer. Without a `reading` there is a reason."""

    reading: Reading | None
    reason: str = ""


class _Ended(Exception):
    """The reader process ended before it had read the page; the text says why."""


class LimitedReader:
    """Reads the pages of a crawl, each within a limit of time."""

    def __init__(
        self, plan: ExtractionPlan, *, product: str = PRODUCT, read_s: float = READ_S
    ) -> None:
        """`product` is the name by which pages may address this crawl; `read_s` is the limit for
        a small page."""
        self._plan = plan
        self._product = product
        self._read_s = read_s
        self._reader = PageReader(plan, product=product)
        self._may_be_slow = needs_care(plan)
        self._process: _ReaderProcess | None = None
        self._turn = asyncio.Lock()

    def reads_at_once(self, body: bytes) -> bool:
        """Return whether `read` may read the page in this process, because it cannot take long."""
        # A packed sitemap is larger than it looks.
        is_small = len(body) <= LARGE and not body.startswith(GZIP)
        return is_small and not self._may_be_slow

    def read(
        self,
        body: bytes,
        url: str,
        *,
        charset: str = UTF8,
        status: int = 200,
        content_type: str = "",
        robots_tags: Sequence[str] = (),
        headers: Sequence[tuple[str, str]] = (),
    ) -> Reading:
        """Read a page in this process, without a limit; only for those that `reads_at_once`."""
        return self._reader.read(
            body,
            url,
            charset=charset,
            status=status,
            content_type=content_type,
            robots_tags=robots_tags,
            headers=headers,
        )

    async def read_within_limit(
        self,
        body: bytes,
        url: str,
        *,
        status: int = 200,
        content_type: str = "",
        robots_tags: Sequence[str] = (),
        headers: Sequence[tuple[str, str]] = (),
    ) -> Reading:
        """Read a page, as it came, in the reader process. A page that takes too long is
        `unreadable`; where XPath may be the reason, the page is read once more without it. Raises
        `ReaderUnavailable` when there can be no such process."""
        page = PageRequest(
            body=body,
            url=url,
            status=status,
            content_type=content_type,
            robots_tags=robots_tags,
            headers=headers,
            cpu_s=self._read_s + READ_S_PER_MB * len(body) / 1e6,
            with_xpath=True,
        )
        async with self._turn:
            try:
                return await self._ask(page)
            except _Ended as error:
                reason = str(error)
            if self._may_be_slow:
                note = f"XPath found nothing: {reason}"
                try:
                    return (await self._ask(page._replace(with_xpath=False)))._replace(note=note)
                except _Ended as error:
                    reason = str(error)
        return Reading(base=url, outcome=Outcome.UNREADABLE, note=reason)

    async def close(self) -> None:
        """End the reader process. A later page starts a new one."""
        process, self._process = self._process, None
        if process is not None:
            process.end()

    async def _ask(self, page: PageRequest) -> Reading:
        try:
            if self._process is None:
                self._process = await self._start()
            return await self._process.read(page)
        except BaseException:
            # What it would answer belongs to a page that nobody waits for any more.
            await self.close()
            raise

    async def _start(self) -> "_ReaderProcess":
        settings = ReaderSettings(self._plan, self._product)
        try:
            return await _ReaderProcess.start(settings)
        except (_Ended, OSError) as error:
            # No fault of the page: it is visited again when the crawl goes on.
            raise ReaderUnavailable(
                f"the process that reads large pages cannot be started: {error}; look at the "
                "limits on processes, open files and memory, and start the same crawl again"
            ) from error


class _ReaderProcess:
    """The reader process, as seen by the process of the crawl."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        answers: asyncio.StreamReader,
        questions: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._answers = answers
        self._questions = questions

    @classmethod
    async def start(cls, settings: ReaderSettings) -> "_ReaderProcess":
        """Start the process, and wait until it is ready."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = _spawn(theirs)
        started = None
        try:
            answers, questions = await asyncio.open_connection(sock=ours)
            started = cls(process, answers, questions)
            await started._exchange(encode(settings), START_S)
        except BaseException:
            if started is not None:
                started.end()
            else:
                ours.close()
                _end(process)
            raise
        return started

    async def read(self, page: PageRequest) -> Reading:
        """Read a page in the process. Raises `_Ended` when the process ended before it had an
        answer."""
        answer = await self._exchange(encode(page), PATIENCE * page.cpu_s, page)
        reading, reason = decode(answer, PageAnswer)
        return reading or Reading(base=page.url, outcome=Outcome.UNREADABLE, note=reason)

    async def _exchange(
        self, message: bytes, within_s: float, page: PageRequest | None = None
    ) -> bytes:
        try:
            async with asyncio.timeout(within_s):
                self._questions.write(len(message).to_bytes(LENGTH_BYTES, "big"))
                self._questions.write(message)
                await self._questions.drain()
                length = await self._answers.readexactly(LENGTH_BYTES)
                return await self._answers.readexactly(int.from_bytes(length, "big"))
        except TimeoutError:
            raise _Ended(f"reading it took more than {within_s:g} s") from None
        except (EOFError, OSError):
            raise _Ended(self._why_it_ended(page)) from None

    def _why_it_ended(self, page: PageRequest | None) -> str:
        code = _end(self._process)
        if page is not None and code == -signal.SIGPROF:
            return f"reading it took more than {page.cpu_s:.1f} s of CPU"
        if page is not None and code == -signal.SIGSEGV:
            return "reading it needed more memory than a page may have, or broke the parser"
        return f"the process that read it ended (exit code {code})"

    def end(self) -> None:
        """Kill the process, whatever it does."""
        self._questions.transport.abort()
        _end(self._process)


def _spawn(connection: socket.socket) -> "subprocess.Popen[bytes]":
    # With -P nothing is imported from the folder that the crawl was started in.
    return subprocess.Popen(  # noqa: S603 (our own module)
        [sys.executable, "-P", "-m", MODULE, str(connection.fileno())],
        pass_fds=(connection.fileno(),),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def _end(process: "subprocess.Popen[bytes]") -> int:
    process.kill()
    return process.wait()
