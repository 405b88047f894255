"""The async shell of the master: load, ask the core, commit, carry out."""
