"""A process that reads pages for another: `python -m crawlfleet.crawl.clerk FD SECONDS`.

Started by `crawl.careful`, which ends it when a page takes too long. Where the other process has
been killed meanwhile, the kernel ends this one after so many seconds of computing for one page.
"""

import signal
import sys
from multiprocessing.connection import Connection

from crawlfleet.crawl.reading import PageReader


def main() -> None:
    # The terminal's Ctrl-C is for the process that this one works for.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Nothing but its default action interrupts the XPath engine.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    connection, most_s = Connection(int(sys.argv[1])), float(sys.argv[2])
    try:
        plan, product = connection.recv()
        reader = PageReader(plan, product=product)
        connection.send(None)
        while True:
            body, url, status, content_type, tags, headers = connection.recv()
            signal.setitimer(signal.ITIMER_PROF, most_s)
            try:
                connection.send(
                    reader.read(
                        body,
                        url,
                        status=status,
                        content_type=content_type,
                        robots_tags=tags,
                        headers=headers,
                    )
                )
            except (EOFError, OSError):
                raise
            except Exception as error:
                connection.send(RuntimeError(f"{type(error).__name__}: {error}"))
            signal.setitimer(signal.ITIMER_PROF, 0)
    except (EOFError, OSError):
        return  # nobody wants anything any more


if __name__ == "__main__":
    main()
