"""Nodes that the host computes: what has no tensor form, or no shape before it is computed."""
