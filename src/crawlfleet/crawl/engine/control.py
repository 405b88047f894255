"""How people lead a crawl that runs: hold it, let it go on, end it early."""

import asyncio


class Reins:
    """What is wanted of a crawl now. Each may be said twice."""

    def __init__(self) -> None:
        self.is_held = False
        self.is_ending = False
        self._news = asyncio.Event()

    def hold(self) -> None:
        """Visit nothing more for now; what is under way is finished."""
        self.is_held = True
        self._news.set()

    def release(self) -> None:
        self.is_held = False
        self._news.set()

    def end(self) -> None:
        """Be content with what is there: its output is finished as if the crawl were."""
        self.is_ending = True
        self._news.set()

    async def wait(self, within_s: float) -> None:
        """Until something else is wanted, or so long."""
        try:
            async with asyncio.timeout(within_s):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()
