"""Sinks that write items as rows of SQLite and PostgreSQL."""
