"""The store in PostgreSQL: statements, connections, the writer, and the schema in a database."""
