"""Products of quantized numbers as products of integers."""
