"""Shared by all commands: the program, connections, output and errors."""
