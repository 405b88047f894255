"""Runs code that people handed over, in an environment of its own.

It is started once for each execution, by the Python of that environment, in which nothing of
crawlfleet is installed: so nothing here imports more than the standard library, and Scrapy where a
spider is wanted. It speaks the executor protocol over stdin and stdout; what the code prints goes
to stderr, and is the log. `docs/reference/executor-protocol.md` describes the messages.
"""
