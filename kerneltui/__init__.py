"""Steer a search for fast GPU kernels from the terminal."""

__version__ = "0.1.0"
