"""Measurements: run one with `python -m bench.<name>`; peers and limits are measured beside us."""
