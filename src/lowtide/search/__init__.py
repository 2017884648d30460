"""Ends of searches, their effort, and hot loops compiled from a subset of Python."""
