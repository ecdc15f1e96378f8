"""Creates the components of an agent from its settings, and closes them in order."""

from __future__ import annotations

import errno
import glob
import os
import time
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from zonewise.daemon.agent import Agent, AgentOptions
from zonewise.daemon.events import Reason
from zonewise.daemon.events.file_watches import WatchRule
from zonewise.daemon.events.source import open_event_source
from zonewise.daemon.events.wake import Wake
from zonewise.daemon.kubelet_poller import KubeletPoller, KubeletSources
from zonewise.daemon.node_config_name import NodeConfigName
from zonewise.daemon.node_rules import NodeRules
from zonewise.daemon.pod_labels import PodLabels, pod_exclusion
from zonewise.daemon.sinks import FileSink, NrtSink, PublishingSink, labels_sink, rules_sink, withdrawal_sink
from zonewise.daemon.status_handler import AgentStatusHandler
from zonewise.gfd.config_files import DevicePluginConfigFile
from zonewise.kubelet import state
from zonewise.kubelet.cgroups import PodCgroups
from zonewise.kubelet.config import KubeletConfigError
from zonewise.kubelet.config_source import open_config
from zonewise.kubelet.podresources.client import PodResourcesClient
from zonewise.kubelet.pods.watch import PodWatch
from zonewise.kubelet.state import StateReader, device_checkpoint_path
from zonewise.kubelet.unreported_devices import UnreportedDevices
from zonewise.machine.discover import Scanner
from zonewise.machine.files import LIVE_ROOT, DirectoryFiles, RootError
from zonewise.machine.running_machine import is_running_machine
from zonewise.nfd.custom_rule_files import CustomRuleFiles
from zonewise.nfd.feature_files import read_local_features
from zonewise.nfd.worker_config_file import WORKER_CONFIG_FILE, WorkerConfigFile
from zonewise.objects.labels import LabelConfig
from zonewise.objects.nrt import NrtOptions
from zonewise.publish.label_publisher import OFF
from zonewise_common.kube.resources import NODE_FEATURE_GROUPS, NODE_FEATURE_RULES
from zonewise_common.service.authorizer import Authorizer
from zonewise_common.service.http_server import serving
from zonewise_common.service.metrics import ServiceMetrics
from zonewise_common.service.options import SettingsError
from zonewise_common.service.tls import open_certificates

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from zonewise.daemon.agent import Sink
    from zonewise.daemon.events.source import EventChannel, EventSource
    from zonewise.daemon.health_monitor import HealthMonitor
    from zonewise.daemon.metrics import AgentMetrics
    from zonewise.daemon.settings import Settings
    from zonewise.daemon.status import Status
    from zonewise.machine.files import Files
    from zonewise.publish.rule_watch import RuleWatch
    from zonewise_common.kube.client import Client
    from zonewise_common.kube.resources import Resource

KUBELET_TIMEOUT = 3.0
"""Seconds for one response of the kubelet; a stop waits for a call in progress."""
KUBELET_RETRY_TIMEOUT = 0.3
"""Seconds for which a call is repeated while the kubelet is down or throttles. After that the loop polls again; the
loop also reacts to signals and to the kubelet's new socket."""
UNHEALTHY_INTERVALS = 3.0
"""Intervals without a heartbeat of the loop after which the agent is unhealthy."""
MAX_PASS_SECONDS = 20.0
"""Maximum seconds of one healthy pass of the loop. This covers two calls to an unresponsive kubelet, four attempts to
read its /configz, and a scan of a large machine under load."""
PUBLISH = "publish"
"""The health mode in which conditions and events are written."""
_REPLACED = "..data"
"""The link in a mounted ConfigMap or Secret that is replaced when the content changes. The files beside it are links
through it and do not change (pkg/volume/util/atomic_writer.go)."""


class Publishers(NamedTuple):
    """The sinks of one agent, and those of them that publish in a thread."""

    sinks: tuple[Sink, ...]
    workers: tuple[PublishingSink, ...]

    def wait(self, seconds: float) -> bool:
        """Wait until everything is published; return whether that took less than the given number of seconds."""
        end = time.monotonic() + seconds
        return all(worker.wait(max(0.0, end - time.monotonic())) for worker in self.workers)


@contextmanager
def open_publishing(
    settings: Settings, client: Client | None, output: str, status: Status, meters: AgentMetrics
) -> Generator[Publishers]:
    """Create the sinks that the settings enable; without a client only the file `output`, if any."""
    with ExitStack() as stack:
        workers: list[PublishingSink] = []
        if client is not None and settings.publish_nrt:
            workers.append(NrtSink(client, settings.node_name, status, meters))
        if client is not None and settings.publish_labels != OFF:
            workers.append(labels_sink(client, settings, status, meters))
        if client is not None and settings.health_mode == PUBLISH:
            from zonewise.daemon.fault_sink import fault_sink

            workers.append(fault_sink(client, settings, status, meters))
        expected = [sink.name for sink in workers]
        if client is not None and settings.rules_enabled:  # readiness does not depend on it: the rules are not ours
            workers.append(rules_sink(client, settings, status, meters))
        elif client is not None:
            meters.clear_rules()
            workers.append(withdrawal_sink(client, settings, status, meters))
        for worker in workers:
            stack.callback(worker.close)
        files = [FileSink(output, status, settings)] if output else []
        status.expect([*expected, *(sink.name for sink in files)])
        yield Publishers((*workers, *files), tuple(workers))


def open_kubelet(settings: Settings, meters: AgentMetrics) -> KubeletPoller:
    """Return the poller of the kubelet. Raises SettingsError."""
    try:
        config = open_config(
            settings.kubelet_config,
            drop_ins=settings.kubelet_config_drop_ins,
            ca=settings.kubelet_ca,
            server_name=settings.node_name,
            fallback=settings.kubelet_config_fallback(),
        )
    except KubeletConfigError as error:
        raise SettingsError(f"kubeletConfig: {error}") from error
    client = PodResourcesClient(
        settings.podresources_socket, timeout=KUBELET_TIMEOUT, retry_timeout=KUBELET_RETRY_TIMEOUT
    )
    registered = UnreportedDevices(device_checkpoint_path(settings.kubelet_dir), settings.podresources_socket)
    own_pod = (settings.namespace, settings.pod_name) if settings.namespace and settings.pod_name else None
    state = StateReader(settings.kubelet_dir)
    return KubeletPoller(KubeletSources(client, state, config, registered, PodCgroups(settings.root), own_pod), meters)


class HealthParts(NamedTuple):
    """The health monitor, and the kernel log that wakes the loop."""

    monitor: HealthMonitor | None = None
    channels: tuple[EventChannel, ...] = ()


@contextmanager
def open_health(settings: Settings, wake: Callable[[], None]) -> Generator[HealthParts]:
    """Create the health monitor if the settings enable it. Its modules are loaded only then.

    Raises SettingsError. `wake` is called when NVML has new data.
    """
    if settings.health_mode == OFF:
        yield HealthParts()
        return
    from zonewise.daemon.health_monitor import HealthMonitor, HealthOptions, read_baseline
    from zonewise.daemon.kernel_log_channel import open_kernel_log
    from zonewise.daemon.nvml_events import watch_nvml_events
    from zonewise.daemon.nvml_watch import NvmlWatch
    from zonewise.health.suspicion import Suspicion
    from zonewise.machine.nvml.child_process import NvmlChild

    with ExitStack() as stack:
        baseline = read_baseline(settings.health_baseline_file)
        suspicion = Suspicion(settings.health_suspect_after)
        options = HealthOptions(settings.health_state_file, baseline, suspicion, settings.health_withhold)
        kernel_log = open_kernel_log(settings.health_kernel_log)
        if kernel_log is not None:
            stack.callback(kernel_log.close)
        by_events = kernel_log is None and settings.health_nvml_events
        files = _host_files(settings)
        nvml = None
        if files.live:
            nvml = NvmlWatch(
                NvmlChild().query, settings.health_nvml_interval, wake, watch_nvml_events if by_events else None
            )
            stack.callback(nvml.close)
        monitor = HealthMonitor(files, options, kernel_log=kernel_log, nvml=nvml)
        stack.callback(monitor.close)
        yield HealthParts(monitor, () if kernel_log is None else (kernel_log,))


def _host_files(settings: Settings) -> DirectoryFiles:
    """Return the files below the root: those of the host, or of a tree from another machine. Raises SettingsError."""
    try:
        return DirectoryFiles(settings.root, live=is_running_machine(settings.root))
    except RootError as error:
        raise SettingsError(str(error)) from error


def make_agent(
    settings: Settings,
    kubelet: KubeletPoller | None,
    client: Client | None,
    publishing: Publishers,
    status: Status,
    meters: AgentMetrics,
    rules: RuleWatches | None = None,
    health: HealthMonitor | None = None,
) -> Agent:
    """Return the loop. Without a kubelet it reports no usage; without watches it evaluates no rules; without a monitor
    it does not check the hardware.

    Raises SettingsError.
    """
    scanner = Scanner(_host_files(settings))
    host = DirectoryFiles(LIVE_ROOT)
    labels = PodLabels(client) if client is not None and settings.exclude.needs_labels() else None
    nrt_options = NrtOptions(settings.exclude.resource_patterns(settings.node_name), settings.fingerprint)
    excluded = pod_exclusion(settings.exclude, labels)
    options = AgentOptions(
        settings.node_name,
        nrt_options,
        excluded,
        settings.interval,
        settings.publish_features,
        local_features=lambda: read_local_features(host, os.path.abspath(settings.nfd_features_dir), datetime.now(UTC)),
        label_config=_label_config(settings, host, client),
        rules=_node_rules(settings, rules),
        health=health,
    )
    return Agent(scanner, kubelet, publishing.sinks, options, status, meters)


def _node_rules(settings: Settings, watches: RuleWatches | None) -> NodeRules | None:
    if watches is None:
        return None
    rules, groups = watches
    policy = settings.rules_extra_label_ns, settings.rules_deny_label_ns, settings.rules_label_white_list
    return NodeRules(settings.node_name, rules.rules, lambda: rules.problem, groups=groups.rules, policy=policy)


def _label_config(settings: Settings, files: Files, client: Client | None) -> Callable[[], LabelConfig]:
    """Return the reader of the files that determine labels."""
    path = os.path.abspath(settings.gfd_config_file) if settings.gfd_config_file else ""
    device_plugin = DevicePluginConfigFile(
        files,
        path,
        settings.gfd_config_name,
        settings.gfd_mig_strategy,
        settings.gfd_machine_type_file,
        selected=(lambda: "") if client is None else NodeConfigName(client, settings.node_name).get,
    )

    worker = WorkerConfigFile(
        files,
        os.path.abspath(settings.nfd_worker_config or os.path.join(settings.root, WORKER_CONFIG_FILE)),
        optional=not settings.nfd_worker_config,
    )

    custom = CustomRuleFiles(files, os.path.abspath(settings.nfd_custom_dir))

    def read() -> LabelConfig:
        (gpus, gpu_problems), (config, problems) = device_plugin.read(), worker.read()
        rules, rule_problems = custom.read()
        if config is not None and rules:
            config = config._replace(custom_rules=(*config.custom_rules, *rules))
        return LabelConfig(gpus, config, settings.node_name, (*gpu_problems, *problems, *rule_problems))

    return read


class RuleWatches(NamedTuple):
    """The watches of the cluster's rules."""

    rules: RuleWatch
    groups: RuleWatch

    def wait_known(self, seconds: float) -> bool:
        """Wait until all rules are known; return whether that took less than the given number of seconds."""
        end = time.monotonic() + seconds
        return all(watch.wait_known(max(0.0, end - time.monotonic())) for watch in self)


@contextmanager
def open_rules(
    settings: Settings, client: Client | None, wake: Wake, meters: AgentMetrics
) -> Generator[RuleWatches | None]:
    """Watch the cluster's rules and groups if the settings enable rules; a change wakes the loop."""
    if client is None or not settings.rules_enabled:
        yield None
        return
    from zonewise.publish.rule_watch import RuleWatch

    def opened(kind: Resource) -> RuleWatch:
        watch = RuleWatch(client, kind, lambda: wake(Reason.RULES))
        meters.watch_age(kind.plural, lambda: watch.age)
        stack.callback(meters.remove_watch_age, kind.plural)
        watch.start()
        stack.callback(watch.close)
        return watch

    with ExitStack() as stack:
        yield RuleWatches(opened(NODE_FEATURE_RULES), opened(NODE_FEATURE_GROUPS))


@contextmanager
def open_events(settings: Settings, settings_file: str, channels: Iterable[EventChannel]) -> Generator[EventSource]:
    """Watch everything that should wake the agent, and the given channels. Raises SettingsError."""
    with ExitStack() as stack:
        if settings.notify_file:
            try:
                ensure_notify_file(settings.notify_file)
            except OSError as error:
                raise SettingsError(f"notifyFile: {settings.notify_file}: {error.strerror}") from error
        wake = Wake()
        stack.callback(wake.close)
        rules = watch_rules(settings, settings_file)
        events = stack.enter_context(open_event_source(rules, [wake, *channels]))
        pods = PodWatch(settings.pods_api_socket, lambda _event: wake(Reason.PODS))
        stack.callback(pods.stop)
        pods.start()
        yield events


def watch_rules(settings: Settings, settings_file: str = "") -> Iterator[WatchRule]:
    """Yield the files that wake the agent, with the reason of each."""
    kubelet = settings.kubelet_dir
    plugins = os.path.join(kubelet, state.DEVICE_PLUGINS)
    yield WatchRule(kubelet, (state.CPU_STATE, state.MEMORY_STATE, state.DRA_STATE), Reason.STATE)
    # the sockets of a plugin and of the kubelet appear before the checkpoint contains their devices
    yield WatchRule(plugins, (state.DEVICE_CHECKPOINT, "*.sock"), Reason.DEVICES)
    # a pod without exclusive resources leaves no other trace, nor does a pod whose end is not yet in the files
    for directory in PodCgroups(settings.root).directories():
        yield WatchRule(directory, ("*pod*",), Reason.PODS)
    yield _file(settings.podresources_socket, Reason.SOCKET)
    yield _file(settings.pods_api_socket, Reason.SOCKET)
    if "://" not in settings.kubelet_config:
        yield _file(settings.kubelet_config, Reason.CONFIG)
    if settings.kubelet_config_drop_ins:
        yield WatchRule(settings.kubelet_config_drop_ins, ("*.conf", _REPLACED), Reason.CONFIG)
    for directory in (settings.nfd_features_dir, settings.nfd_custom_dir):
        yield WatchRule(directory, ("[!.]*", _REPLACED), Reason.FEATURES)
    yield _file(settings.nfd_worker_config or os.path.join(settings.root, WORKER_CONFIG_FILE), Reason.FEATURES)
    if settings.gfd_config_file:
        yield _file_or_directory(settings.gfd_config_file, Reason.FEATURES)
    if settings.notify_file:
        yield _file(settings.notify_file, Reason.NOTIFY)._replace(touched=True)
    if settings_file:
        yield _file(settings_file, Reason.RELOAD)


def ensure_notify_file(path: str) -> None:
    """Create the notification file and its parent directories if they are absent.

    Raises OSError if that is impossible, or if the path is not a regular file.
    """
    os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o750, exist_ok=True)
    # O_NONBLOCK: opening a FIFO would block forever
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o640))
    if not os.path.isfile(path):
        raise OSError(errno.EINVAL, "is not a regular file", path)


def _file_or_directory(path: str, reason: Reason) -> WatchRule:
    return WatchRule(path, ("[!.]*", _REPLACED), reason) if os.path.isdir(path) else _file(path, reason)


def _file(path: str, reason: Reason) -> WatchRule:
    directory, name = os.path.split(os.path.abspath(path))
    return WatchRule(directory, (glob.escape(name), _REPLACED), reason)


@contextmanager
def open_server(settings: Settings, client: Client, status: Status, meters: AgentMetrics) -> Generator[None]:
    """Serve health and metrics as long as the context lasts, if the settings enable it. Raises SettingsError."""
    if not settings.listen:
        yield
        return
    silence_limit = UNHEALTHY_INTERVALS * settings.interval + MAX_PASS_SECONDS
    handler = AgentStatusHandler(
        status, meters.registry, silence_limit=silence_limit, readiness_limit=settings.readiness_limit
    )
    authorizer = Authorizer(client) if settings.metrics_auth == "token" else None
    certificates = open_certificates(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
    service = ServiceMetrics(client.request_failures)
    service.add_certificates(certificates)
    service.add_authorizer(authorizer)
    with ExitStack() as stack:
        meters.registry.register(service)
        stack.callback(meters.registry.unregister, service)
        stack.enter_context(serving(settings.listen, handler, authorizer=authorizer, certificates=certificates))
        yield
