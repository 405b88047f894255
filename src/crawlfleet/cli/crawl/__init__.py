"""The commands `crawl` and `extract`: crawls on this machine or on a fleet."""
