"""Reads pages by plans that could take for ever, in a process of its own that can be ended.

Nothing can interrupt the XPath engine from within, so that a bound that holds is a bound on a
process (`crawl.clerk`). It costs a fraction of a millisecond a page, and only crawls pay it whose
expressions are not known to be harmless.
"""

import contextlib
import socket
import subprocess
import sys
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from crawlfleet.core.robots_tags import PRODUCT
from crawlfleet.core.xpath import needs_care, without_xpath
from crawlfleet.crawl.reading import PageReader, Reader, Reading
from crawlfleet.model.extraction import Plan

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

READ_S: Final = 3.0
"""For one page; those of people take milliseconds."""
MARGIN_S: Final = 1.0
"""So much later the other process ends by itself, where nobody has ended it."""
START_S: Final = 60.0
MODULE: Final = "crawlfleet.crawl.clerk"


def reader_of(plan: Plan, *, product: str = PRODUCT) -> Reader:
    """A reader whose time for a page is bounded, whatever the plan and the page are; `product` is
    the name by which pages may speak to the crawl."""
    return (CarefulReader if needs_care(plan) else PageReader)(plan, product=product)


class CarefulReader:
    """Reads what can be read in time. Of other pages XPath finds nothing, and the note says so."""

    def __init__(self, plan: Plan, *, product: str = PRODUCT, within_s: float = READ_S) -> None:
        self._plan = plan
        self._product = product
        self._within_s = within_s
        self._clerk: Clerk | None = None
        self._without_xpath = PageReader(without_xpath(plan), product=product)

    def read(
        self,
        body: bytes,
        url: str,
        *,
        status: int = 200,
        content_type: str = "",
        robots_tags: Sequence[str] = (),
        headers: Sequence[tuple[str, str]] = (),
    ) -> Reading:
        page = (body, url, status, content_type, robots_tags, headers)
        try:
            if self._clerk is None:
                self._clerk = Clerk(self._plan, self._product, self._within_s)
            return self._clerk.read(page)
        except (TimeoutError, EOFError, OSError) as error:
            self._dismiss()
            slow = isinstance(error, TimeoutError)
            note = f"an XPath {f'took more than {self._within_s:g} s' if slow else 'broke off'}"
        rest = self._without_xpath.read(
            body,
            url,
            status=status,
            content_type=content_type,
            robots_tags=robots_tags,
            headers=headers,
        )
        return rest._replace(note=f"{note}, and all of them found nothing")

    def _dismiss(self) -> None:
        clerk, self._clerk = self._clerk, None
        if clerk is not None:
            clerk.end()


class Clerk:
    """The other process. It ends when this one does, however that is."""

    def __init__(self, plan: Plan, product: str, within_s: float) -> None:
        from multiprocessing.connection import Connection  # few plans need it

        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: S603 (our own module)
                [sys.executable, "-m", MODULE, str(theirs.fileno()), str(within_s + MARGIN_S)],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        connection = Connection(ours.detach())
        self._connection = connection
        self._within_s = within_s
        self.end = weakref.finalize(self, _end, process, connection)
        connection.send((plan, product))
        self._answer(START_S)

    def read(self, page: tuple[object, ...]) -> Reading:
        """Raises `TimeoutError`, and `EOFError` or `OSError` when the process has died."""
        self._connection.send(page)
        found = self._answer(self._within_s)
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, Reading)
        return found

    def _answer(self, within_s: float) -> object:
        if not self._connection.poll(within_s):
            raise TimeoutError
        return self._connection.recv()


def _end(process: "subprocess.Popen[bytes]", connection: "Connection") -> None:
    with contextlib.suppress(OSError):
        connection.close()
    process.kill()
    process.wait()
