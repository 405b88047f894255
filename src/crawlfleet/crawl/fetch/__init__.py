"""The HTTP client of crawls: bounded, guarded, one outcome for whatever a site does."""
