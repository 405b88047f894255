"""Cells for foreign code: what the machine can hold it with, and how it is put there."""
