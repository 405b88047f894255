"""Output of a crawl: its sinks, and its upload to the master."""
