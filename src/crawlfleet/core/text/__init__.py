"""Names, user patterns, and messages about input that cannot be decoded."""
