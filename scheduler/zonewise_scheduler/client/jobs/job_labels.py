"""Labels and annotations of jobs, as the planner reads them.

They are repeated here because the planner's readers import numpy, which users' machines may lack. A test checks that
both copies are equal.
"""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Label with the LocalQueue of a job."""
PRIORITY_CLASS_LABEL = "kueue.x-k8s.io/priority-class"
JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
"""Label of a Workload with the UID of its job."""
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
"""Annotation of a pod template that requires all pods to be in one domain of this level."""
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
"""Label of the pods of a Job (k8s.io/api batch/v1 JobNameLabel)."""
