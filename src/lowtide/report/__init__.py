"""What lowtide found out about a module, as data for people and programs."""
