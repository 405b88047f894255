"""The master's HTTP face: one route table, from which routing, roles and the reference come."""
