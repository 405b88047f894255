"""The pool of executor processes, and the protocol that they speak."""
