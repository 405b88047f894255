"""Everything that names a product: stores, frontiers, files, locks, sinks, senders.

Each folder implements a port, and imports ports, model, errors and its own driver, not the program
around it. Only `compose` chooses among them.
"""
