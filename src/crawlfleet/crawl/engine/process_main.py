"""One process of a crew: `python -m crawlfleet.crawl.engine.process_main FD`, started by
`crawl.engine.processes`."""

import asyncio
import signal
import socket
import sys

from crawlfleet import event_loop
from crawlfleet.crawl.engine.build import engine_of, fetcher_of
from crawlfleet.crawl.engine.gc import keep_memory, look_seldom
from crawlfleet.crawl.engine.work_queue_socket import Errand, WireDesk, receive
from crawlfleet.errors import StoreUnavailable
from crawlfleet.steady_clock import SteadyClock


async def work(connection: socket.socket) -> None:
    """Visit for the parent process, until it orders the end or is gone."""
    reader, writer = await asyncio.open_connection(sock=connection)
    errand = await receive(reader, Errand)
    if errand is None:
        return
    desk, end = WireDesk(reader, writer), asyncio.Event()
    listening = asyncio.create_task(desk.listen(end), name="listen")
    fetcher = fetcher_of(errand.parameters, allow_private=errand.allow_private)
    engine = engine_of(
        errand.parameters,
        desk=desk,
        fetcher=fetcher,
        keep_bodies=errand.keep_bodies,
        revisiting=errand.revisiting,
        now=SteadyClock(set_by_s=errand.set_by_s),
        ledger=desk if errand.engine else None,
        name=errand.engine,
    )
    try:
        await engine.run(end)
    except StoreUnavailable:
        if not desk.gone:
            raise
        # The main process is gone, and with it all reason to go on.
    finally:
        listening.cancel()
        await fetcher.close()
        writer.close()


def main() -> None:
    # The terminal's Ctrl-C is for the main process, which ends this one in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=int(sys.argv[1]))
    keep_memory()
    look_seldom()
    event_loop.run(work(connection), fast=True)


if __name__ == "__main__":
    main()
