"""Rules for addresses, compression and lock-out."""
