"""Programs of graphics processors run on the host: threads one by one, races found."""
