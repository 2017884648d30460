"""The meaning of each operation: shape inference, verification, cost, aliasing; one table."""
