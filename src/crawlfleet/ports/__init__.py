"""What the shell needs from outside, as small protocols with their contracts."""
