"""What programs do while they run: the sanitizer, profiles, peaks, texts of kernels."""
