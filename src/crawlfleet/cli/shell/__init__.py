"""What all commands share: the program, connections, output, errors."""
