"""Files: written in one piece, kept from other users, signed by the user who made them."""
