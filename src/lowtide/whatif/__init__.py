"""Changes of a program, each planned again, with what they save and what time they cost."""
