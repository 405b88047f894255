"""The one place where implementations are chosen and put together.

The parts of a master, those of a node, and adapters that settings name by a URL are modules of
their own, so that a process imports only what it needs. Callers import the API server and the HTTP
client themselves; a crawl of one process begins without all of this (`crawl.engine.local`).
"""
