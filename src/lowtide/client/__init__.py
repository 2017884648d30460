"""Things in users' hands: executables, `jit`, the library of clients, what is kept in between."""
