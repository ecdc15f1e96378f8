"""What can go wrong between the kubelet and us; each with the transport's own error as its cause."""

from __future__ import annotations


class KubeletError(Exception):
    """The kubelet gave no answer that can be used."""


class KubeletUnavailable(KubeletError):
    """Nobody listens on its socket, or the connection broke: it is down, or starts."""


class KubeletTimeout(KubeletError):
    """It took the call, and did not answer in time."""


class Throttled(KubeletError):
    """It refused for the number of calls: 100 a second and 10 at once, for all clients of the node together."""


class BadAnswer(KubeletError):
    """It answered with an error, or with what is no message of its API."""


class Unsettled(KubeletError):
    """Its answers do not go together, or lack pods that are alive: it has just started, or pods come and go."""
