"""Logs of executions: kept while they run, searched, removed after a while."""
