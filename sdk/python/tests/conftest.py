"""The fixtures of all tests."""

from support import scene, server, short

__all__ = ["scene", "server", "short"]
