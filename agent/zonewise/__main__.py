"""`python -m zonewise`."""

from __future__ import annotations

import sys

from zonewise.cli import main

sys.exit(main())
