"""Saved values held in fewer bits."""
