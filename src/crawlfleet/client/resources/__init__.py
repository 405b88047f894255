"""The calls of the client, one module for each resource."""
