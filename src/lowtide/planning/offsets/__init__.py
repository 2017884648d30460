"""Strategies that give buffers offsets, one idea per file."""
