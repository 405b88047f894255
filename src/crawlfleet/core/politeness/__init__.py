"""Rules for politeness: the clock of a host, the ledger of a fleet, retries of URLs."""
