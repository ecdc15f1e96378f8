"""Notes about a batch script that relies on what Slurm provides and a pod lacks: srun, and some of its variables.

A shell replaces an unset variable by nothing, so that `rm -r /scratch/$SLURM_JOB_ID` would remove all of /scratch.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise_scheduler.client.submit.job_objects import start_script, variables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.client.submit.job_request import JobRequest

_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_SRUN = re.compile(r"(?:^|[;&|(]|\bexec|\btime)[ \t]*srun\b", re.MULTILINE)
_USE = re.compile(r"\$(?:\{(SLURM_\w+)(?!\w|:?[-=+?])|(SLURM_\w+))", re.ASCII)
"""A variable without a default value of its own (POSIX, Shell Command Language, 2.6.2)."""
_ASSIGNMENT = re.compile(r"\b(SLURM_\w+)=", re.ASCII)
_EXPORT = re.compile(r"\bexport (\w+)=", re.ASCII)
_NUMBERS = frozenset({"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_JOB_ID"})


def script_notes(request: JobRequest, script: str) -> Iterator[str]:
    """Yield what a script uses in vain; `script`: its text."""
    commands = _COMMENT.sub("", script)
    if _SRUN.search(commands):
        yield "the script calls srun, which a pod does not have: start the program itself, or use mpirun with --mpi"
    known = {name for name, _ in variables(request)}
    known |= {*_EXPORT.findall(start_script(request)), *_ASSIGNMENT.findall(commands)}
    used = (braced or plain for braced, plain in _USE.findall(commands))
    for name in dict.fromkeys(used):
        if name not in known:
            advice = ": jobs have names instead of numbers, so use $SLURM_JOB_NAME" if name in _NUMBERS else ""
            yield f"the script uses ${name}, which is not set{advice}"
