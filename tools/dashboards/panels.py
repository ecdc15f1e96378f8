"""The panels. A query for faults ends in `or vector(0)`, since a counter without faults has no series."""

from __future__ import annotations

from typing import NamedTuple


class Query(NamedTuple):
    """One PromQL query, and the name of its series in Grafana's notation."""

    expr: str
    legend: str


class Panel(NamedTuple):
    """One graph; `unit` is Grafana's name of the unit."""

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]


class Row(NamedTuple):
    """A row of a dashboard."""

    title: str
    panels: tuple[Panel, ...]


class Dashboard(NamedTuple):
    """A dashboard; `name` is the name of its file, and its identity in Grafana."""

    name: str
    title: str
    rows: tuple[Row, ...]


def _panel(title: str, description: str, unit: str, *queries: tuple[str, str]) -> Panel:
    return Panel(title, description, unit, tuple(Query(*query) for query in queries))


def _quantiles(metric: str, by: str = "") -> tuple[tuple[str, str], ...]:
    """Return the median and 99th percentile of a histogram, for each value of a label."""
    labels = f"le, {by}" if by else "le"
    name = f"{{{{{by}}}}} " if by else ""
    return tuple(
        (f"histogram_quantile({quantile}, sum by ({labels}) (rate({metric}_bucket[5m])))", f"{name}{text}")
        for quantile, text in ((0.5, "median"), (0.99, "99th percentile"))
    )


def _of_leader(gauge: str, by: str) -> str:
    """Return the sum of a gauge by labels, without standby replicas, which know the queues too."""
    return f"sum by ({by}) ({gauge} unless on (job, instance) zonewise_leader == 0)"


def _of_nominal(gauge: str) -> str:
    """Return an amount of quota divided by the nominal quota; nothing for a resource without nominal quota."""
    nominal = _of_leader("kueue_cluster_queue_nominal_quota", "cluster_queue, resource")
    return f"{_of_leader(gauge, 'cluster_queue, resource')} / ({nominal} > 0)"


def _faults(metric: str, by: str) -> tuple[str, str]:
    """Return the faults per second of a counter, by its labels; 0 if it has no series."""
    return f"sum by ({by}) (rate({metric}[5m])) or vector(0)", _legend(by)


def _hourly(metric: str, by: str = "", legend: str = "") -> tuple[str, str]:
    """Return the increase of a counter within an hour, by its labels; 0 if it has no series.

    A new series started at 0 before its first sample, but increase() does not know this.
    """
    count = f"({metric} unless max_over_time({metric}[1h] offset 1h)) or increase({metric}[1h])"
    return f"sum by ({by}) ({count}) or vector(0)" if by else f"sum({count}) or vector(0)", legend or _legend(by)


def _legend(by: str) -> str:
    return " ".join(f"{{{{{label.strip()}}}}}" for label in by.split(","))


def _of_agents(metric: str) -> str:
    """Return a metric without the series of the node_exporter that runs on the same nodes."""
    return f'{metric}{{job=~".*zonewise-agent"}}'


def _below(current: str, best: str) -> str:
    """Return the number of devices for which a metric is below its best value."""
    return f"sum({_of_agents(current)} < bool {_of_agents(best)})"


_SCHEDULER = Row("Scheduler", (
    _panel("Nodes by state of their report", "Aligned pods are not placed on stale and unreported nodes.", "short",
           ("sum by (state) (zonewise_nodes)", "{{state}}")),
    _panel("Filtered pods by result",
           "Pods per second: assumed on a node, passed without alignment, or rejected by every node.",
           "ops", ("sum by (result) (rate(zonewise_extender_filter_results_total[5m]))", "{{result}}")),
    _panel("Duration of calls", "kube-scheduler waits for each call.", "s",
           *_quantiles("zonewise_extender_request_duration_seconds", "verb")),
    _panel("Pods rejected by kubelets", "A misprediction is a bug, or a change that Kubernetes does not show.", "short",
           _hourly('zonewise_kubelet_rejections_total{job!~".*zonewise-controller"}', "reason"),
           _hourly("zonewise_mispredictions_total", legend="mispredicted")),
    _panel("Assumed pods",
           "Pods sent to a node that does not report them yet, and the outcomes of assumptions.", "short",
           ("zonewise_pods_assumed", "assumed"),
           ("sum(rate(zonewise_assumptions_total[5m]))", "assumed per second"),
           _faults("zonewise_assumed_pods_total", "outcome")),
    _panel("Failed calls", "The extender's log gives the reason for each failure.", "ops",
           ('sum by (verb, code) (rate(zonewise_extender_requests_total{code!="200"}[5m])) or vector(0)',
            "{{verb}} {{code}}")),
    _panel("Pods that every node rejects", "By the most frequent cause: the reason, and the decisive resource.", "ops",
           _faults("zonewise_extender_rejections_total", "reason, resource")),
    _panel("Pods that the extender binds or requeues", "As soon as a node would admit them.", "ops",
           _faults("zonewise_direct_bindings_total", "result"),
           ("sum(rate(zonewise_pods_requeued_total[5m]))", "requeued")),
    _panel("Preemption", "Pods for which others are preempted, and these victims.", "short",
           _hourly("zonewise_preemptions_total", "by"),
           _hourly("zonewise_preemption_victims_total", legend="victims"),
           ("max(zonewise_disruption_budgets_forbidden)", "PodDisruptionBudgets unreadable")),
    _panel("Damaged reports", "Nodes whose report cannot be used, by kind of problem.", "short",
           ("sum by (kind) (zonewise_damaged_reports) or vector(0)", "{{kind}}"),
           _hourly("zonewise_report_problems_total", "kind")),
))  # fmt: skip
_ZONES = Row("Zones", (
    _panel("CPUs available", "Sum over all zones of all nodes.", "short",
           ('sum(zonewise_zone_available{resource="cpu"})', "available"),
           ('sum(zonewise_zone_allocatable{resource="cpu"})', "allocatable"),
           ('sum(zonewise_zone_capacity{resource="cpu"})', "capacity")),
    _panel("Largest request that fits one zone", "On any node, with assumed pods subtracted.", "short",
           ('max by (resource) (zonewise_largest_zone_free{resource!~"memory|hugepages.*"})', "{{resource}}")),
    _panel("Free resources in the largest free zone",
           "1 means that all free resources of a node are in one zone, values near 0 that they are scattered.",
           "percentunit", ("max by (resource) (zonewise_largest_zone_free_ratio)", "{{resource}}")),
))  # fmt: skip
_AGENTS = Row("Agents", (
    _panel("Age of reports", "Seconds since the published objects were last known to match the node.", "s",
           ("topk(10, zonewise_published_age_seconds)", "{{node}}")),
    _panel("Kubelets that do not report", "The free resources of these nodes are unknown.", "short",
           ("sum(zonewise_kubelet_ready == bool 0)", "nodes")),
    _panel("Problems", "Problems in the data that agents read from the machine and the kubelet.", "short",
           ("sum by (source) (zonewise_problems)", "{{source}}")),
    _panel("Duration of scans", "Time from an event to the snapshot of the node.", "s",
           *_quantiles("zonewise_scan_duration_seconds")),
    _panel("Scans", "By the event that caused them.", "ops",
           ("sum by (reason) (rate(zonewise_wakeups_total[5m]))", "{{reason}}")),
    _panel("Collectors", "The slowest parts of discovery, and nodes on which one fails.", "s",
           ("topk(5, max by (collector) (zonewise_collector_duration_seconds))", "{{collector}}"),
           ("sum(zonewise_collector_success == bool 0)", "failing")),
    _panel("Requests to kubelets", "All requests, and failed ones by kind of error.", "ops",
           ("sum by (method) (rate(zonewise_kubelet_requests_total[5m]))", "{{method}}"),
           _faults("zonewise_kubelet_errors_total", "method, error")),
    _panel("Duration of writes", "Writes to the API server, by object.", "s",
           *_quantiles("zonewise_publish_duration_seconds", "object")),
    _panel("Size of writes", "Request bodies to the API server, by object.", "bytes",
           *_quantiles("zonewise_publish_size_bytes", "object")),
    _panel("Failed writes", "By object and reason.", "ops",
           _faults("zonewise_publish_errors_total", "object, reason")),
    _panel("Rules", "NodeFeatureRules by state, and rejected outputs.", "short",
           ("sum by (state) (zonewise_rules) or vector(0)", "{{state}}"),
           ("sum(zonewise_rule_outputs_rejected) or vector(0)", "rejected outputs")),
    _panel("Repairs", "Objects that another client had deleted or edited.", "short",
           _hourly("zonewise_publish_repairs_total", "object, cause")),
    _panel("Labels", "Labels of the agents in NodeFeature objects or on Nodes, and rejected settings.", "short",
           ("sum by (path) (zonewise_labels)", "{{path}}"),
           _hourly("zonewise_settings_errors_total", legend="rejected settings")),
    _panel("Memory of agents", "Resident memory of the largest agents.", "bytes",
           ('topk(10, process_resident_memory_bytes{job=~".*zonewise-agent.*"})', "{{node}}")),
))  # fmt: skip
_HARDWARE = Row("Hardware", (
    _panel("Faults", "Active faults by device and by severity, and the number raised or repeated per hour.", "short",
           ("sum by (node, device, rule) (zonewise_hardware_fault) or vector(0)", "{{node}} {{device}} {{rule}}"),
           ("sum by (severity) (zonewise_hardware_faults) or vector(0)", "{{severity}}"),
           _hourly("zonewise_hardware_fault_events_total", legend="events")),
    _panel("Processors", "Packages, cores, hardware threads and NUMA nodes of all nodes.", "short",
           ("sum by (state) (zonewise_cpus)", "CPUs {{state}}"), ("sum(zonewise_cores)", "cores"),
           ("sum(zonewise_packages)", "packages"), ("sum by (kind) (zonewise_zones)", "zones {{kind}}")),
    _panel("GPUs", "By model and state.", "short", ("count by (vendor, model, state) (zonewise_gpu_info)",
                                                   "{{vendor}} {{model}} {{state}}")),
    _panel("Network devices", "Physical devices by driver, and RDMA devices by firmware.", "short",
           ("count by (driver) (zonewise_nic_info)", "{{driver}}"),
           (f"count by (hca_type, firmware_version) ({_of_agents('node_infiniband_info')})",
            "{{hca_type}} {{firmware_version}}")),
    _panel("InfiniBand ports", "All ports, those that are not active, and those whose link is not up.", "short",
           (f"count({_of_agents('node_infiniband_state_id')})", "ports"),
           (f"sum({_of_agents('node_infiniband_state_id')} != bool 4)", "not active"),
           (f"sum({_of_agents('node_infiniband_physical_state_id')} != bool 5)", "link not up")),
    _panel("Rate of InfiniBand links", "By rate, so that a link that trained at a lower rate stands out.", "short",
           (f'count_values("rate", {_of_agents("node_infiniband_rate_bytes_per_second")})', "{{rate}} B/s")),
    _panel("PCIe links below their maximum",
           "A lower width indicates a badly seated card. Idle GPUs lower their speed.", "short",
           (_below("node_pcidevice_current_link_width", "node_pcidevice_max_link_width"), "narrower"),
           (_below("node_pcidevice_current_link_transfers_per_second",
                   "node_pcidevice_max_link_transfers_per_second"), "slower")),
))  # fmt: skip
_PROGRAMS = Row("Programs", (
    _panel("Versions", "Processes by version; two versions during a rollout.", "short",
           ("count by (job, version) (zonewise_build_info)", "{{job}} {{version}}")),
    _panel("Settings", "Processes by the hash of their settings.", "short",
           ("count by (job, hash) (zonewise_settings_info)", "{{job}} {{hash}}")),
    _panel("Age of watches", "Seconds since copies of objects were last known to be current.", "s",
           ("max by (job, resource) (zonewise_watch_age_seconds)", "{{job}} {{resource}}")),
    _panel("Failed requests to the API server", "Requests that may succeed later are repeated.", "ops",
           _faults("zonewise_api_request_failures_total", "job, method, reason")),
    _panel("Rejected tokens", "Requests for metrics whose token was rejected.", "ops",
           _faults("zonewise_token_rejections_total", "job, reason")),
    _panel("Certificates", "Time until the certificates expire.", "s",
           ("min by (job, file) (zonewise_tls_certificate_expiry_timestamp_seconds) - time()", "{{job}} {{file}}")),
))  # fmt: skip
_QUEUES = Row("Queues", (
    _panel("Pending workloads",
           "Active workloads are tried in each pass; inadmissible ones wait for a change.", "short",
           (_of_leader("kueue_pending_workloads", "cluster_queue, status"), "{{cluster_queue}} {{status}}")),
    _panel("Running workloads", "Admitted workloads, and workloads with quota.", "short",
           (_of_leader("kueue_admitted_active_workloads", "cluster_queue"), "{{cluster_queue}} admitted"),
           (_of_leader("kueue_reserving_active_workloads", "cluster_queue"), "{{cluster_queue}} with quota")),
    _panel("Pending workloads of LocalQueues", "By namespace and LocalQueue.", "short",
           (_of_leader("kueue_local_queue_pending_workloads", "namespace, name, status"),
            "{{namespace}}/{{name}} {{status}}")),
    _panel("Running workloads of LocalQueues", "Admitted workloads, and workloads with quota.", "short",
           (_of_leader("kueue_local_queue_admitted_active_workloads", "namespace, name"),
            "{{namespace}}/{{name}} admitted"),
           (_of_leader("kueue_local_queue_reserving_active_workloads", "namespace, name"),
            "{{namespace}}/{{name}} with quota")),
    _panel("Usage of LocalQueues", "Used and reserved quota, in CPUs, bytes or counts.", "short",
           (_of_leader("kueue_local_queue_resource_usage", "namespace, name, resource"),
            "{{namespace}}/{{name}} {{resource}} used"),
           (_of_leader("kueue_local_queue_resource_reservation", "namespace, name, resource"),
            "{{namespace}}/{{name}} {{resource}} reserved")),
    _panel("Inactive LocalQueues", "The condition of the LocalQueue gives the reason.", "short",
           (_of_leader('kueue_local_queue_status{active!="True"}', "namespace, name"), "{{namespace}}/{{name}}")),
    _panel("Use of quotas",
           "Used and reserved quota divided by the nominal quota; values above 1 are borrowed.", "percentunit",
           (_of_nominal("kueue_cluster_queue_resource_usage"), "{{cluster_queue}} {{resource}} used"),
           (_of_nominal("kueue_cluster_queue_resource_reservation"), "{{cluster_queue}} {{resource}} reserved")),
    _panel("Limits", "Amounts that queues may borrow and lend; +Inf means no limit.", "short",
           (_of_leader("kueue_cluster_queue_borrowing_limit", "cluster_queue, resource"),
            "{{cluster_queue}} {{resource}} borrowing"),
           (_of_leader("kueue_cluster_queue_lending_limit", "cluster_queue, resource"),
            "{{cluster_queue}} {{resource}} lending")),
    _panel("Shares", "Borrowed divided by lendable quota in thousandths, divided by the weight.", "short",
           ("max by (cluster_queue) (kueue_cluster_queue_weighted_share)", "{{cluster_queue}}"),
           ("max by (cohort) (kueue_cohort_weighted_share)", "cohort {{cohort}}")),
    _panel("Inactive queues", "By status; the condition of the ClusterQueue gives the reason.", "short",
           (_of_leader('kueue_cluster_queue_status{status!="active"}', "cluster_queue, status"),
            "{{cluster_queue}} {{status}}")),
    _panel("Workloads per hour", "Admitted, finished, evicted, preempted and replaced workloads.", "short",
           _hourly("kueue_admitted_workloads_total", legend="admitted"),
           _hourly("kueue_quota_reserved_workloads_total", legend="with quota"),
           _hourly("kueue_finished_workloads_total", legend="finished"),
           _hourly("kueue_evicted_workloads_total", "reason"),
           _hourly("kueue_preempted_workloads_total", legend="preempted"),
           _hourly("kueue_replaced_workload_slices_total", legend="replaced slices")),
))  # fmt: skip
_WAITING = Row("Waiting", (
    _panel("Wait until admission", "Time from the creation or the last eviction of a workload.", "s",
           *_quantiles("kueue_admission_wait_time_seconds", "cluster_queue")),
    _panel("Wait until quota", "Time from the creation or the last eviction of a workload.", "s",
           *_quantiles("kueue_quota_reserved_wait_time_seconds", "cluster_queue")),
    _panel("Wait for admission checks", "Time from the quota reservation to the admission.", "s",
           (("sum by (cluster_queue) (rate(kueue_admission_checks_wait_time_seconds_sum[1h]))"
            " / sum by (cluster_queue) (rate(kueue_admission_checks_wait_time_seconds_count[1h])) or vector(0)"),
            "{{cluster_queue}} mean")),
    _panel("Start of pods", "Time from the admission until all pods are ready.", "s",
           *_quantiles("kueue_admitted_until_ready_wait_time_seconds", "cluster_queue")),
    _panel("Wait until ready", "Time from the creation or the last eviction until all pods are ready.", "s",
           *_quantiles("kueue_ready_wait_time_seconds", "cluster_queue")),
    _panel("Duration of evictions", "Time from an eviction until the quota of the workload is free.", "s",
           *_quantiles("kueue_workload_eviction_latency_seconds", "cluster_queue")),
    _panel("Reservations", "Reserved starts, and workloads per hour that started more than a minute late.", "short",
           ("sum(zonewise_reservations)", "reserved"),
           (('sum(increase(zonewise_reservation_error_seconds_count[1h]))'
            ' - sum(increase(zonewise_reservation_error_seconds_bucket{le="60.0"}[1h]))'), "started late")),
    _panel("Forecast errors",
           "Actual start minus the likely start of the first forecast; values below 0 are earlier starts.", "s",
           *_quantiles("zonewise_forecast_error_seconds")),
))  # fmt: skip
_CONTROLLER = Row("Controller", (
    _panel("Scheduling passes", "Passes per second, by whether they admitted a workload.", "ops",
           ("sum by (result) (rate(kueue_admission_attempts_total[5m]))", "{{result}}")),
    _panel("Duration of passes", "The controller decides nothing else during a pass.", "s",
           *_quantiles("kueue_admission_attempt_duration_seconds")),
    _panel("Writes",
           "Attempts per second by result: stale if the object has changed, unknown if the write is repeated.", "ops",
           ("sum by (result) (rate(zonewise_writes_total[5m]))", "{{result}}")),
    _panel("Backlogs", "Pending messages, writes and decisions.", "short",
           ("sum(zonewise_inbox_messages)", "messages"), ("sum(zonewise_write_backlog)", "writes"),
           ("sum(zonewise_assumed_admissions)", "decisions not yet visible")),
    _panel("Leader", "Exactly one replica leads, or none while Kueue manages the queues.", "short",
           ("sum(zonewise_leader)", "leaders"), ("max(zonewise_kueue_manages_queues)", "Kueue manages the queues")),
    _panel("Objects that need attention", "Inadmissible workloads, and objects that cannot be read.", "short",
           ("max(zonewise_inadmissible_workloads)", "inadmissible"), ("max(zonewise_invalid_objects)", "unreadable")),
    _panel("Pods of queues", "Pods that kubelets rejected, and pods left to kube-scheduler, by reason.", "short",
           _hourly('zonewise_kubelet_rejections_total{job=~".*zonewise-controller"}', "reason"),
           _hourly("zonewise_pods_left_to_kube_scheduler_total", "reason")),
    _panel("Dropped events",
           "Events that were too many to write.", "ops", ("sum(rate(zonewise_dropped_events_total[5m]))", "events")),
))  # fmt: skip

DASHBOARDS = (
    Dashboard("zonewise", "zonewise", (_SCHEDULER, _ZONES, _AGENTS, _HARDWARE, _PROGRAMS)),
    Dashboard("zonewise-queue", "zonewise: the queue", (_QUEUES, _WAITING, _CONTROLLER)),
)
"""The objects that Grafana's sidecar loads."""
