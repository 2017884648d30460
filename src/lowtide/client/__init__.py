"""What users hold: executables, `jit`, the library of clients, and what is kept in between."""
