"""Views of programs while they run: the sanitizer, profiles, peaks, texts of kernels."""
