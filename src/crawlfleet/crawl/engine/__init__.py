"""The engine: takes URLs from the frontier, fetches, extracts, commits.

Begin with `engine`; `crawl` runs a whole crawl.
"""
