"""The store in SQLite: statements, the writer in its thread, and the schema in a file."""
