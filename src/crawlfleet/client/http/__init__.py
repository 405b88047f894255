"""How the client talks to a master: transport, retries, streams."""
