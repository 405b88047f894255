"""Rules for logs: what is kept, and how it is searched."""
