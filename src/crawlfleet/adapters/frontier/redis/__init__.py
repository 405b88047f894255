"""The frontier of a crawl on Redis, shared by all workers of a fleet.

A crawl is divided into partitions by the hash of the host; all keys of one lie in one slot, and
every step is one script in it (`lua/`). `partition` runs these scripts, `connection` talks to the
server, `records` reads their results; `frontier` puts this behind
`crawlfleet.ports.frontier.frontier`, with `handover` for links between partitions and `leasing` for
hosts and `max_pages`.
"""
