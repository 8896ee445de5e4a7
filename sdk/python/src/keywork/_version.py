"""The package's version, as servers are told it."""

VERSION = "0.1.0"
