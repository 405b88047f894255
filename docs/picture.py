"""Takes the README's picture from a real fleet at work: `make docs`."""

import asyncio
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from tests.support.local_fleet import LocalFleet, running

from crawlfleet.cli.fleet.demo import demo_batch
from crawlfleet.cli.fleet.status_table import LiveTable
from crawlfleet.testing.demo_shop import ServedShop

IMAGE = Path(__file__).with_name("images") / "up.svg"


async def take(fleet: LocalFleet, shop: str) -> None:
    await fleet.until_ready(nodes=2)
    console = Console(record=True, width=100, file=sys.stderr)
    async with fleet.client() as client:
        await client.submit_batch(demo_batch(shop))
        await asyncio.sleep(3)
        console.print("$ crawlfleet up", style="bold")
        console.print("crawlfleet is up: http://127.0.0.1:8000/open#…")
        console.print(await LiveTable(client).picture())
    IMAGE.parent.mkdir(exist_ok=True)
    picture = console.export_svg(title="crawlfleet up")
    # The fonts of a stranger's server: the reader's own monospace does as well.
    IMAGE.write_text(re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL))


if __name__ == "__main__":
    settings = {"CRAWLFLEET_WORKER_ALLOW_PRIVATE": "true"}
    with (
        tempfile.TemporaryDirectory() as folder,
        ServedShop() as shop,
        running(LocalFleet(Path(folder) / "f", **settings)) as fleet,
    ):
        asyncio.run(take(fleet, shop.url))
