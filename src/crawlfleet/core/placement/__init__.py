"""Placement: which task goes to which node, and why not.

Begin with `plan`.
"""
