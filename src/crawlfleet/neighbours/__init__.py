"""Services beside the fleet: those that it tells what happens."""
