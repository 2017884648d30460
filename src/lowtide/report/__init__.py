"""Findings about a module, as data for people and programs."""
