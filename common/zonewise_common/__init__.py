"""Code that the agent, the scheduler and the sandbox share. It imports none of them."""

try:
    from zonewise_common._version import __version__
except ImportError:  # a tree that was never built or installed
    __version__ = "0+unknown"

__all__ = ["__version__"]
