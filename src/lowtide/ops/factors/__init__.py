"""Factors of operations: which dimensions of operands and results belong together, and how."""
