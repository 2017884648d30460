"""Code for objects: a whole program as one function that C can call."""
