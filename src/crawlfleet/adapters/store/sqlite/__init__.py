"""What only SQLite needs: its statements, the writer of its thread, its schema in a file."""
