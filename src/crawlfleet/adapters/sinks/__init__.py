"""Sinks write the items and pages of a crawl: JSON lines, CSV, WARC archives, tables."""
