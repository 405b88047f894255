"""What all routes share: the route table, authentication, bodies, errors, streams."""
