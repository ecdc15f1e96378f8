"""Keys that wait for workers, at once or at a time of a clock that is passed in; and the workers."""

from zonewise_sandbox.workqueue.controller import Controller, Key
from zonewise_sandbox.workqueue.delaying_queue import DelayingQueue

__all__ = ["Controller", "DelayingQueue", "Key"]
