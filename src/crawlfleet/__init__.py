"""crawlfleet: submit crawl work once, and a fleet of machines finishes all of it."""

__version__ = "0.1.0"
