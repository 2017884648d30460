"""What stands above all layers and meets the frameworks: programs compiled by JAX."""
