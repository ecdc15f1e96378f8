"""The settings of `zonewise controller`. Only the file can contain structured settings, such as `jobKinds`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.service.condition_option import AVOID_CONDITIONS
from zonewise_common.service.options import (
    FileOption,
    Option,
    Options,
    SettingsError,
    boolean,
    duration,
    listen_address,
    text,
    whole_number,
)
from zonewise_common.service.shared_options import API_SERVER, LOGS, METRICS_AUTH, check_tls, tls_options
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, DEFAULT_RESERVE_AFTER, POLICY_NAMES, policy_named
from zonewise_scheduler.controller.jobs.job_kind import SETTING as JOB_KINDS
from zonewise_scheduler.controller.jobs.job_kind import parse_job_kinds
from zonewise_scheduler.controller.kueue.kueue_lease import DEFAULT_LEASE, parse_lease_name
from zonewise_scheduler.controller.managed_namespaces import (
    MANAGED_NAMESPACES_SETTING,
    all_but,
    parse_managed_namespaces,
)
from zonewise_scheduler.quota.api.configuration import (
    ADMISSION_FAIR_SHARING_SETTING,
    DEFAULT_SETTINGS,
    parse_admission_fair_sharing,
)
from zonewise_scheduler.quota.api.resource_settings import ALL_RESOURCES, RESOURCES_SETTING, parse_resource_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.k8s.labels import Requirement
    from zonewise_scheduler.controller.jobs.job_kind import JobKind
    from zonewise_scheduler.quota.api.configuration import AdmissionFairSharingConfig, QuotaSettings
    from zonewise_scheduler.quota.api.resource_settings import ResourceSettings

DEFAULT_FILE = "/etc/zonewise/controller.yaml"


class ControllerSettings(NamedTuple):
    """The settings. Durations are in seconds; an empty string means "none"."""

    kubeconfig: str = ""
    api_server: str = ""
    namespace: str = "zonewise"
    leader_election: bool = True
    metrics_listen: str = ":9821"
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    metrics_auth: str = "none"
    policy: str = DEFAULT_POLICY
    reserve_after: float = DEFAULT_RESERVE_AFTER
    fair_sharing: bool = False
    writes_per_second: int = 300
    write_burst: int = 500
    pods_ready_timeout: float = 0.0
    """Time within which pods must become ready; 0: unlimited."""
    pods_recovery_timeout: float = 0.0
    requeue_limit: int = -1
    """Maximum number of requeues; below 0: unlimited."""
    requeue_backoff: float = 60.0
    requeue_backoff_max: float = 3600.0
    finished_workload_retention: float = 0.0
    """Time for which finished Workloads are kept; 0: as long as their jobs."""
    watch_stale_after: float = 30.0
    webhook_listen: str = ""
    webhook_cert_dir: str = "/run/zonewise"
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: tuple[Requirement, ...] | None = None
    """Requirements on the labels of namespaces whose jobs are queued; None: the default."""
    avoid_conditions: tuple[str, ...] = ()
    recording: str = ""
    accounting_directory: str = ""
    accounting_log: bool = True
    log_level: str = "info"
    log_format: str = "text"
    kueue_lease: str = DEFAULT_LEASE
    job_kinds: tuple[JobKind, ...] = ()
    """Kinds of jobs in addition to those with a built-in adapter."""
    resources: ResourceSettings = ALL_RESOURCES
    admission_fair_sharing: AdmissionFairSharingConfig | None = None

    @property
    def managed_namespaces(self) -> tuple[Requirement, ...]:
        """The requirements on the labels of namespaces whose jobs are queued."""
        selector = self.managed_jobs_namespace_selector
        return all_but("kube-system") if selector is None else selector

    @property
    def quota_settings(self) -> QuotaSettings:
        """The settings of the quota."""
        return DEFAULT_SETTINGS._replace(
            fair_sharing=self.fair_sharing,
            resources=self.resources,
            admission_fair_sharing=self.admission_fair_sharing,
        )


OPTIONS = Options((
    *API_SERVER,
    Option("namespace", text, "namespace for the Lease, the checkpoint and the certificate (default: zonewise)", "NAME",
           ("POD_NAMESPACE",)),
    Option("leaderElection", boolean, "decide and write only while holding the Lease, so that other replicas can stand "
           "by (default: true)", "true|false"),
    Option("metricsListen", listen_address, "address at which to serve metrics, health and the read API (default: "
           '":9821"; "" for none)', "ADDRESS:PORT"),
    *tls_options("serve metrics, health and the read API", "accept clients"),
    METRICS_AUTH,
    Option("policy", text, "backfill policy: which workloads may start before others, and which get reservations: "
           f"{', '.join(POLICY_NAMES)} (default: {DEFAULT_POLICY})", "NAME"),
    Option("reserveAfter", duration, "wait after which the default policy reserves any start for a workload. From 6h "
           "and six walltimes on, it reserves a start that is at most 0.3 of the wait away (default: "
           f"{DEFAULT_RESERVE_AFTER / 3600:.0f}h)",
           "DURATION"),
    Option("fairSharing", boolean, "share the quota of a cohort by weight, as Kueue's fairSharing does "
           "(default: false)",
           "true|false"),
    Option("writesPerSecond", whole_number(1, 100_000), "number of writes per second to the API server, on average "
           "(default: 300)",
           "NUMBER"),
    Option("writeBurst", whole_number(1, 100_000), "number of writes that may follow each other at once after a quiet "
           "period (default: 500)", "NUMBER"),
    Option("podsReadyTimeout", duration, "evict a workload if not all of its pods are ready this long after its "
           "admission (default: never)", "DURATION"),
    Option("podsRecoveryTimeout", duration, "evict a workload if one of its failed pods is not ready again within this "
           "time (default: never)", "DURATION"),
    Option("requeueLimit", whole_number(0, 1_000_000), "deactivate a workload whose pods were not ready in time, after "
           "this many requeues (default: never)", "NUMBER"),
    Option("requeueBackoff", duration, "delay before a workload whose pods were not ready in time is requeued; it "
           "doubles with each further requeue (default: 60s)", "DURATION"),
    Option("requeueBackoffMax", duration, "longest delay before such a workload is requeued (default: 1h)", "DURATION"),
    Option("finishedWorkloadRetention", duration, "delete a Workload this long after its job has ended "
           "(default: together with the job)", "DURATION"),
    Option("watchStaleAfter", duration, "time without confirmation that a watched kind is current, after which the "
           "controller is not ready (default: 30s)", "DURATION"),
    Option("webhookListen", listen_address, "address at which to serve the admission webhooks, over TLS with a "
           "certificate that the controller renews itself (default: none)", "ADDRESS:PORT"),
    Option("webhookCertDir", text, "directory for the certificate and the key of the webhooks "
           "(default: /run/zonewise)", "PATH"),
    Option("manageJobsWithoutQueueName", boolean, "also hold jobs without a queue, until they name one "
           "(default: false)",
           "true|false"),
    AVOID_CONDITIONS,
    Option("kueueLease", text, "stand by while Kueue's leader election holds this Lease, until `zonewise adopt` "
           f'(default: {DEFAULT_LEASE}; "": do not look for Kueue)', "NAMESPACE/NAME"),
    Option("recording", text, "file to which the planner's inputs and decisions are appended, for `zonewise simulate "
           "--replay`", "PATH"),
    Option("accountingDirectory", text, "directory for records of ended runs, in a file for each month, for "
           "`zonewise report` (default: none)", "PATH"),
    Option("accountingLog", boolean, "also log these records, which name users (default: true)", "true|false"),
    *LOGS,
), (
    FileOption(JOB_KINDS, parse_job_kinds, "further kinds of jobs that have a suspend field"),
    FileOption(MANAGED_NAMESPACES_SETTING, parse_managed_namespaces, "selector of the namespaces whose jobs are "
               "queued, as in Kueue's configuration (default: all but kube-system)"),
    FileOption(RESOURCES_SETTING, parse_resource_settings, "which requests of pods count against quotas, as in Kueue's "
               "configuration"),
    FileOption(ADMISSION_FAIR_SHARING_SETTING, parse_admission_fair_sharing, "how the usage of LocalQueues decays, as "
               "in Kueue's configuration; without it, usage does not order them"),
))  # fmt: skip


def read_settings(
    flags: Mapping[str, str | None], environment: Mapping[str, str], content: str | None, path: str = DEFAULT_FILE
) -> ControllerSettings:
    """Return the settings from flags, environment and file. Flags override the environment, which overrides the file.

    `content`: text of the file at `path`; None: there is no file. Raises SettingsError.
    """
    settings = ControllerSettings(**OPTIONS.read(flags, environment, content, path))
    check_tls(settings)
    try:
        policy_named(settings.policy)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    try:
        parse_lease_name(settings.kueue_lease)
    except ValueError as error:
        raise SettingsError(f"kueueLease: {error}") from error
    if not settings.namespace:
        raise SettingsError("namespace: must not be empty: the controller needs a namespace for its Lease")
    return settings
