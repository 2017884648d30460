"""Pure functions from a module to frozen results."""
