"""The command `distribute`, with JSON settings files."""
