"""The program of a Python executor process: `python -m crawlfleet.worker.executor.main PARENT_PID`.

It answers `hello`, then runs one execution after the other, those that were sent ahead in their
order. User code sees an empty stdin, and a stdout that goes to the log: it cannot break the
protocol.
"""

import os
import sys

from crawlfleet import event_loop
from crawlfleet.worker import parent_watch
from crawlfleet.worker.executor.loop import Host
from crawlfleet.worker.executor.replies import Replies
from crawlfleet.worker.executor.stdout import Printing


def main() -> None:
    parent_watch.tie(int(sys.argv[1]))
    orders_fd, replies_fd = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    replies = Replies(replies_fd)
    host = Host(orders_fd, replies)
    printing = Printing(lambda: host.latest_id, replies)
    sys.stdout = printing.text(errors="strict")
    sys.stderr = printing.text(errors="backslashreplace")
    event_loop.run(host.serve(), fast=True)


if __name__ == "__main__":
    main()
