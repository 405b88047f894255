"""A cell: one execution in namespaces of its own, started by a fork server."""
