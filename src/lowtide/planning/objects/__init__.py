"""Strategies that let tensors share objects, one idea per file."""
