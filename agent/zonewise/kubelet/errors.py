"""Errors between the agent and the kubelet; each has the transport's error as its cause."""

from __future__ import annotations


class KubeletError(Exception):
    """The kubelet gave no usable response."""


class KubeletUnavailable(KubeletError):
    """No server listens on the socket, or the connection broke: the kubelet is down or starting."""


class KubeletTimeout(KubeletError):
    """The kubelet accepted the call but did not respond in time."""


class Throttled(KubeletError):
    """The kubelet rejected the call because of its rate limits: 100 a second and 10 at once, for all clients of the
    node together.
    """


class BadResponse(KubeletError):
    """The kubelet responded with an error, or with something that is not a message of its API."""


class Unsettled(KubeletError):
    """The kubelet's responses contradict each other or lack alive pods: it has just started, or pods come and go."""
