"""Code that all routes share: route table, authentication, bodies, errors, streams."""
