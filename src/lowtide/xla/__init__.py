"""XLA's own ways of doing things: its analyses, assigners, streams and dumped texts."""
