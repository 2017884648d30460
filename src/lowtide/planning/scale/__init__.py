"""Parts of `portfolio`: orders for best fit, filling from below, parts of time."""
