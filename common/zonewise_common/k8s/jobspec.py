"""The fields of a Job's spec."""

JOB_SPEC_FIELDS = frozenset({
    "activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completionMode", "completions", "managedBy",
    "manualSelector", "maxFailedIndexes", "parallelism", "podFailurePolicy", "podReplacementPolicy", "selector",
    "successPolicy", "suspend", "template", "ttlSecondsAfterFinished",
})  # fmt: skip
"""Names of the fields of a JobSpec (k8s.io/api/batch/v1 types.go)."""
