"""Control of a running crawl by its operator: hold, resume, end early."""

import asyncio


class Reins:
    """The operator's orders for a running crawl. Each may be given twice."""

    def __init__(self) -> None:
        self.is_held = False
        self.is_ending = False
        self._news = asyncio.Event()

    def hold(self) -> None:
        """Pause the crawl: no new visit begins, and visits under way finish."""
        self.is_held = True
        self._news.set()

    def release(self) -> None:
        self.is_held = False
        self._news.set()

    def end(self) -> None:
        """End the crawl early; its output is finished as if the crawl were."""
        self.is_ending = True
        self._news.set()

    async def wait(self, within_s: float) -> None:
        """Wait until an order changes, at most `within_s`."""
        try:
            async with asyncio.timeout(within_s):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()
