"""Rules of operations: which dimensions of operands and results are split together."""
