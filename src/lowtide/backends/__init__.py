"""What takes a module to a program of one target."""
