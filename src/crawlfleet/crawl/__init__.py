"""The crawl engine: how pages are reached, fetched and read."""
