"""Stores keep the state of a fleet; `acceptance` is the one place that compares versions."""
