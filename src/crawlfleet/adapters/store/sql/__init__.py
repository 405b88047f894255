"""What the SQL stores have in common: one schema, its statements, and how structs become rows."""
