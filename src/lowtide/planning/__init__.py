"""Where to put buffers: the packing problem by itself, on plain numbers."""
