"""What `portfolio` is made of: orders for best fit, filling from below, parts of time."""
