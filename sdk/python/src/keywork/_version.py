"""The package's version, as servers are told it."""

__version__ = "0.1.0"
