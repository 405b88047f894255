"""Decisions as plain functions of values: no clock, no chance, no input or output."""
