"""Placement: decides which task goes to which node, and explains why a task does not run.

Begin with `plan`.
"""
