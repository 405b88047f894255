"""Books of the fleet's politeness ledger: in the memory of the leading master, or in Redis."""
