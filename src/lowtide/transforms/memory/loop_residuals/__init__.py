"""Values that a loop keeps for a later one, chosen by a minimum cut."""
