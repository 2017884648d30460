"""Forms of operations on whole arrays, and what every target writes of them alike."""
