"""From a scheduled module to slices of allocations."""
