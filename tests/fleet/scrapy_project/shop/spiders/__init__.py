"""Where the spiders are."""
