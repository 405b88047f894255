"""Where the output of a crawl goes; see `crawlfleet.ports.sink`."""
