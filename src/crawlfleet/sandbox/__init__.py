"""Cells for foreign code: what this machine can confine it with, and how a cell is started."""
