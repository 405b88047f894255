"""The client's HTTP layer: transport, retries, streams."""
