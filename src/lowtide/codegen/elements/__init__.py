"""The elements of fused instructions at index tuples, for any target."""
