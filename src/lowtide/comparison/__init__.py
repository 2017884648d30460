"""Peaks compared with others: what a change did to one, and a gate that keeps them from rising."""
