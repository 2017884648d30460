"""Programs compiled ahead of time: objects that C programs link."""
