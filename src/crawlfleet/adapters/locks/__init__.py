"""Where locks are kept: in memory, in a SQLite file, in PostgreSQL or in Redis.

All count tokens alike: one more than the last of that name, and at least the keeper's clock in
microseconds. So they go on growing when what was kept is lost or comes back from a backup, unless
the clock was set back as well.
"""
