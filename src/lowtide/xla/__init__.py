"""What XLA does, as XLA does it: its analyses, assigners, streams and the texts that it dumps."""
