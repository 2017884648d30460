"""Exact packing: bounds, searches that find a packing of a height or prove that none is."""
