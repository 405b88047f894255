"""The interfaces to everything outside of the process, as small protocols with their contracts."""
