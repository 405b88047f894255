"""The task types that come with crawlfleet; each is an entry point in `crawlfleet.executors`."""
