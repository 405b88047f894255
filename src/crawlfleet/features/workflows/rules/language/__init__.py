"""The expressions of workflow documents: syntax, types, evaluation.

Written by hand: all expressions of a step share one budget of work, and kinds are checked before a
run. JMESPath has no arithmetic, simpleeval takes Python's syntax, and no binding of CEL for Python
is known to share a budget.
"""
