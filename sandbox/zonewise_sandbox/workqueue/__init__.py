"""Keys that wait for workers, immediately or until a time of the given clock; and the workers."""

from zonewise_sandbox.workqueue.controller import Controller, Key
from zonewise_sandbox.workqueue.delaying_queue import DelayingQueue

__all__ = ["Controller", "DelayingQueue", "Key"]
