"""What only PostgreSQL needs: its statements, connections, the writer, its schema in a database."""
