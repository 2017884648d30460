"""Partitioning: from a module with shardings to the program of one device."""
