"""What a frontier must offer: to an engine, to a master, for checkpoints."""
