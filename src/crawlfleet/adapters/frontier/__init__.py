"""Frontiers of one process: the same books in a file, or in memory.

`books` decides, in one thread and without waiting: it grants leases and applies commits. `sql` has
its tables. `commit_plan` works out one commit, `host_queue` schedules hosts, `seen` knows which
URLs are known. `sqlite` and `memory` put this behind `crawlfleet.ports.frontier.frontier`.
"""
