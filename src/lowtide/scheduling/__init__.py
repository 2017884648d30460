"""Orders of execution, chosen by the memory they need."""
