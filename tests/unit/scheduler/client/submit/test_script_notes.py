"""Notes about what a batch script expects from Slurm in vain."""

from __future__ import annotations

import pytest

from zonewise_scheduler.client.submit.job_request import GPU, JobRequest
from zonewise_scheduler.client.submit.sbatch_values import parse_array
from zonewise_scheduler.client.submit.script_notes import script_notes

JOB = JobRequest("train", "image:1", "gpu", pods=2, devices={GPU: 1}, gpus=1, environment={"SLURM_MINE": "1"})
ARRAY = JobRequest("sweep", "image:1", "gpu", array=parse_array("1,5,9"))


@pytest.mark.parametrize(
    ("command", "note"),
    [
        ("rm -r /scratch/$SLURM_JOB_ID", "$SLURM_JOB_ID, which is not set: jobs have names instead of numbers"),
        ("cd ${SLURM_SUBMIT_DIR}/run", "the script uses $SLURM_SUBMIT_DIR, which is not set"),
        ("echo ${SLURM_NTASKS%x}", "the script uses $SLURM_NTASKS, which is not set"),
        ("srun python train.py", "the script calls srun"),
        ("cd run && srun --mpi=pmix ./a", "the script calls srun"),
        ("(time srun ./a)", "the script calls srun"),
    ],
)
def test_a_note_names_what_is_missing(command: str, note: str) -> None:
    [found] = script_notes(JOB, f"#!/bin/bash\n{command}\n")
    assert note in found


@pytest.mark.parametrize(
    "command",
    [
        'torchrun --nnodes "$SLURM_JOB_NUM_NODES" --node-rank $SLURM_NODEID --nproc ${SLURM_GPUS_ON_NODE}',
        "echo $SLURM_JOB_NAME ${SLURM_JOB_NODELIST} $SLURM_CPUS_PER_TASK $SLURM_MINE",
        "echo ${SLURM_NTASKS:-1} ${SLURM_PROCID-0}",
        "SLURM_NTASKS=4\necho $SLURM_NTASKS",
        "# rm -r $SLURM_JOB_ID; srun x",
        "mysrun x; ./srun.sh; echo srun",
    ],
)
def test_nothing_is_noted_if_nothing_is_missing(command: str) -> None:
    assert list(script_notes(JOB, f"#!/bin/bash\n{command}\n")) == []


def test_an_array_has_variables_of_its_own() -> None:
    script = "#!/bin/sh\necho $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_MAX $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_JOB_ID\n"
    [note] = script_notes(ARRAY, script)
    assert "$SLURM_ARRAY_JOB_ID" in note
    assert [each for each in script_notes(JOB, script) if "TASK_ID" in each]
