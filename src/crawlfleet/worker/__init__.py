"""The async shell of a node: its agent, and the processes in which the work runs."""
