"""Messages of waiting jobs as lists of clauses; a clause may itself contain "; "."""

MESSAGES = [
    [""],
    ["needs 8 nvidia.com/gpu of flavor h100; cohort lab has 0 of its 16 left", "waits for ns/a to end",
     "could start at 11:45 UTC unless others start first", "starts about 09:40 UTC, at the latest 10:05 UTC"],
    ["needs 8 CPUs of flavor a; ClusterQueue q may borrow 4 at most, and has 1 left",
     "needs 8 CPUs of flavor b; ClusterQueue q has 0", "ns/other is before it in ClusterQueue q and must start first"],
    ['flavor default: topology "default" doesn\'t allow to fit any of 2 pod(s). Total nodes: 4; excluded: kubelet: 4',
     "on node n1 it needs 8 nvidia.com/gpu; 6 are free", "is reserved to start now"],
    ["flavor default: the topology allows nothing", "most capacity is in rack r1",
     "on node n1 it needs 20 CPUs in one zone; zone 0 has 4 free, zone 1 has 2; zone 2 has none",
     "cannot start even when all other workloads have ended"],
    ["is number 3 in ClusterQueue q", "the next scheduling pass decides"],
    ["waits for Job a to succeed", "waits for Job b to end"],
    ["has to preempt ns/a and ns/b", "would delay ns/c, which is reserved to start at 11:45 UTC at the latest"],
]  # fmt: skip
