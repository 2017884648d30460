"""Kernels that reduce: along rows, along columns, of whole arrays; scans."""
