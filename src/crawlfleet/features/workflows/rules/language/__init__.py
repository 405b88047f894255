"""The expressions of workflow documents: syntax, types, evaluation."""
