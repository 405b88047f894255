"""The one place where implementations are chosen and put together.

A master, a node, and what both and the command line open by its URL are modules of their own, so
that a process begins with what it needs. The API server and the HTTP client are imported by those
who need them; a crawl of one process begins without all of this (`crawl.engine.local`).
"""
