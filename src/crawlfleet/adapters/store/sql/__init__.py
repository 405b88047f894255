"""The base of the SQL stores: one schema, its statements, and the mapping of structs to rows."""
