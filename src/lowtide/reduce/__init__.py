"""A module that fails, made small."""
