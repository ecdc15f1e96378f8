"""Logging to standard error: one line per event, as text for people or as JSON for programs."""

from __future__ import annotations

import json
import logging
import sys
import time

LOGGERS = ("zonewise", "zonewise_common", "zonewise_scheduler", "zonewise_sandbox")
"""The names of our loggers; those of the modules are below them."""
_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure_logging(level: str, style: str) -> None:
    """Log events from a level on ("debug", "info", "warning", "error"), in the style "text" or "json"."""
    handler = logging.StreamHandler(sys.stderr)
    if style == "json":
        handler.setFormatter(_JsonFormatter())
    else:
        formatter = logging.Formatter(_TEXT)
        formatter.converter = time.gmtime
        formatter.default_time_format, formatter.default_msec_format = "%Y-%m-%dT%H:%M:%S", "%s.%03dZ"
        handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # for libraries
    for name in LOGGERS:
        logging.getLogger(name).setLevel(level.upper())
