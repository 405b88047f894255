"""Files that the master keeps for others: bundles, and the output of crawls in segments."""
