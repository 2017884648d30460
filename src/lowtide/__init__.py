"""lowtide: a tensor compiler whose centre is memory."""
