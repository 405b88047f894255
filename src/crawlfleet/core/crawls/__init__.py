"""Rules for whole crawls: figures, shares of workers, messages of a frontier."""
