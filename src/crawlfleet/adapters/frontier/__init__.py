"""Frontiers of one process: the same books in a file, or in memory.

`books` decides, in one thread and without waiting: who may visit what, and what a commit means.
`tables` is its SQL. `intake` works out one commit, `hosts` knows whose turn it is, `seen` whether
a URL is known. `sqlite` and `memory` put this behind `crawlfleet.ports.frontier.frontier`.
"""
