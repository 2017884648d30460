"""What ends searches, how far they go, and hot loops compiled from a subset of Python."""
