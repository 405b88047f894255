"""Lock stores: in memory, in a SQLite file, in PostgreSQL and in Redis.

All count tokens alike: one more than the last of that name, and at least the store's clock in
microseconds. So they go on growing when the locks are lost or come back from a backup, unless the
clock was set back as well.
"""
