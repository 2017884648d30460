"""Convolutions and pooling as native code: implicit matrix products, and windows over channels."""
