"""A process that reads pages for another: `python -m crawlfleet.crawl.clerk FD`.

Started by `crawl.careful`, which ends it when a page takes too long.
"""

import signal
import sys
from multiprocessing.connection import Connection

from crawlfleet.crawl.reading import PageReader


def main() -> None:
    # The terminal's Ctrl-C is for the process that this one works for.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(int(sys.argv[1]))
    try:
        plan, product = connection.recv()
        reader = PageReader(plan, product=product)
        connection.send(None)
        while True:
            body, url, charset, status, content_type, tags, headers = connection.recv()
            try:
                connection.send(
                    reader.read(
                        body,
                        url,
                        charset=charset,
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
    except (EOFError, OSError):
        return  # nobody wants anything any more


if __name__ == "__main__":
    main()
