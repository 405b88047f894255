"""The life of a task: admission, transitions, retries, shards, results."""
