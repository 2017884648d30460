"""Reports on a plan in the text formats of XLA's dumps."""
