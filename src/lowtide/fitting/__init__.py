"""Programs at other sizes: which dimensions grow together, and the largest size that fits."""
