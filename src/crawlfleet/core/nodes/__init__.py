"""Rules for nodes: registration, health, labels, samples."""
