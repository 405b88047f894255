"""Inside an executor process: the loop that runs executions, and their context."""
