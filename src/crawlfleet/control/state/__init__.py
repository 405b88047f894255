"""The master's memory of the store, and the only way to change the store.

Begin with `fleet_state`.
"""
