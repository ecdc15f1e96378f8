"""Labels and annotations of jobs, as the planner's readers have them.

They stand here again, since those readers import the whole planner with its arrays, which people's machines lack. A
test holds them equal.
"""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Names the LocalQueue of a job."""
PRIORITY_CLASS_LABEL = "kueue.x-k8s.io/priority-class"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
"""Annotation of a pod template: all pods are in one domain of this level."""
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
"""Of the pods of a Job (k8s.io/api batch/v1 JobNameLabel)."""
