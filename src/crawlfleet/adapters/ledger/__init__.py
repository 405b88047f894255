"""Where the fleet's politeness ledger is kept: in the memory of the leading master, or in Redis."""
