"""Recomputation to a budget: sequences that run nodes again, and bounds on what that costs."""
