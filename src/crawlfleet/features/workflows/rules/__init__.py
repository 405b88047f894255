"""Decisions of workflows: documents, validation, plans, progress of a run."""
