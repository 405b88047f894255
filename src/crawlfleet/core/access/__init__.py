"""Rules for keys, roles and projects."""
