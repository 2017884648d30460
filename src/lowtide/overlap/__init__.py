"""Communication behind computation: the simulated step of one device, and its shortest order."""
