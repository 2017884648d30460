"""Searches for shardings of arguments: the quickest simulated step that fits on each device."""
