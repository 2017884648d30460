"""Foreign functions as targets of custom calls: what is registered, and how they are called."""
