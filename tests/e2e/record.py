"""Records all scenes on the real kubelet of this machine, for machines without one; it needs what these tests need."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.e2e.kubelet import skip_reason
from support.e2e.recording import RECORDINGS, SCENES, record, write

if __name__ == "__main__":
    if reason := skip_reason():
        sys.exit(reason)
    RECORDINGS.mkdir(parents=True, exist_ok=True)
    for scene in SCENES:
        (RECORDINGS / f"{scene.name}.json").write_text(write(record(scene)))
