"""Makes the parts of an agent from its settings, and ends them in order."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from zonewise.daemon.agent import Agent, AgentOptions
from zonewise.daemon.events import Reason
from zonewise.daemon.events.file_watches import FileWatches
from zonewise.daemon.events.source import EventSource
from zonewise.daemon.events.uevents import open_uevents
from zonewise.daemon.events.wake import Wake
from zonewise.daemon.events.watch_rules import ensure_notify_file, watch_rules
from zonewise.daemon.kubelet_poller import KubeletPoller, KubeletSources
from zonewise.daemon.pod_labels import PodLabels, pod_exclusion
from zonewise.daemon.sinks import FileSink, PublishingSink, labels_sink, nrt_sink
from zonewise.daemon.site import AgentSite
from zonewise.kubelet.cgroups import PodCgroups
from zonewise.kubelet.config import KubeletConfigError as KubeletConfigError
from zonewise.kubelet.config_source import open_config
from zonewise.kubelet.podresources.client import PodResourcesClient
from zonewise.kubelet.pods.watch import PodWatch
from zonewise.kubelet.state import StateReader, device_checkpoint_path
from zonewise.kubelet.unreported_devices import UnreportedDevices
from zonewise.machine.discover import Scanner
from zonewise.machine.files import DirectoryFiles, RootError
from zonewise.objects.nrt import NrtOptions
from zonewise_common.service.authorizer import Authorizer
from zonewise_common.service.http_server import serving
from zonewise_common.service.options import SettingsError
from zonewise_common.service.tls import open_certificates

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from zonewise.daemon.agent import Sink
    from zonewise.daemon.events.source import EventChannel
    from zonewise.daemon.metrics import AgentMetrics
    from zonewise.daemon.settings import Settings
    from zonewise.daemon.status import Status
    from zonewise_common.kube.client import Client

log = logging.getLogger(__name__)

KUBELET_TIMEOUT = 3.0
"""Seconds for one answer of the kubelet: much longer, and a stop would have to wait for it."""
KUBELET_RETRY_TIMEOUT = 0.3
"""Seconds for which a call is repeated to a kubelet that is away or refuses. Then the loop asks again, which hears
signals meanwhile, and the kubelet's new socket."""
UNHEALTHY_INTERVALS = 3.0
"""Intervals without a round of the loop after which the agent is not healthy."""
MAX_PASS_SECONDS = 20.0
"""Seconds that a round itself may take, which are no sickness: two calls to a kubelet that does not answer, four tries
of its /configz, and a look at a large machine under load."""


class Publishers(NamedTuple):
    """What publishes what the agent finds."""

    sinks: tuple[Sink, ...]
    workers: tuple[PublishingSink, ...]

    def wait(self, seconds: float) -> bool:
        """Wait until all is published; tell whether it was within the time."""
        end = time.monotonic() + seconds
        return all(worker.wait(max(0.0, end - time.monotonic())) for worker in self.workers)


@contextmanager
def open_publishing(
    settings: Settings, client: Client | None, output: str, status: Status, meters: AgentMetrics
) -> Generator[Publishers]:
    """Make the sinks that the settings ask for; without a client only the file `output`, if any."""
    with ExitStack() as stack:
        workers: list[PublishingSink] = []
        if client is not None and settings.publish_nrt:
            workers.append(nrt_sink(client, status, meters))
        if client is not None and settings.publish_labels != "off":
            workers.append(labels_sink(client, settings, status, meters))
        for worker in workers:
            stack.callback(worker.close)
        files = [FileSink(output, status)] if output else []
        status.expect([sink.name for sink in (*workers, *files)])
        yield Publishers((*workers, *files), tuple(workers))


def open_kubelet(settings: Settings, meters: AgentMetrics) -> KubeletPoller:
    """Return what asks the kubelet. Raises SettingsError."""
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
    own = (settings.namespace, settings.pod_name) if settings.namespace and settings.pod_name else None
    state = StateReader(settings.kubelet_dir)
    return KubeletPoller(KubeletSources(client, state, config, registered, PodCgroups(settings.root), own), meters)


def make_agent(
    settings: Settings,
    kubelet: KubeletPoller,
    client: Client | None,
    publishing: Publishers,
    status: Status,
    meters: AgentMetrics,
) -> Agent:
    """Return the loop. Raises SettingsError."""
    try:
        # where the root is not "/", it is the host's files as a container sees them, and still the machine we run on
        scanner = Scanner(DirectoryFiles(settings.root, live=True))
    except RootError as error:
        raise SettingsError(str(error)) from error
    labels = PodLabels(client) if client is not None and settings.exclude.needs_labels() else None
    options = NrtOptions(settings.exclude.resource_patterns(settings.node_name), settings.fingerprint)
    wishes = AgentOptions(settings.node_name, options, pod_exclusion(settings.exclude, labels), settings.interval)
    return Agent(scanner, kubelet, publishing.sinks, wishes, status, meters)


@contextmanager
def open_events(settings: Settings, settings_file: str, channels: Iterable[EventChannel]) -> Generator[EventSource]:
    """Hear of everything that should wake the agent, and of what the given channels tell. Raises SettingsError."""
    with ExitStack() as stack:
        if settings.notify_file:
            try:
                ensure_notify_file(settings.notify_file)
            except OSError as error:
                raise SettingsError(f"notifyFile: {settings.notify_file}: {error.strerror}") from error
        watches = FileWatches(watch_rules(settings, settings_file))
        stack.callback(watches.close)
        wake = Wake()
        stack.callback(wake.close)
        heard: list[EventChannel] = [wake, *channels]
        uevents = open_uevents()
        if uevents is not None:
            stack.callback(uevents.close)
            heard.append(uevents)
        pods = PodWatch(settings.pods_api_socket, lambda _event: wake(Reason.PODS))
        stack.callback(pods.stop)
        pods.start()
        yield EventSource(watches, heard)


@contextmanager
def open_server(settings: Settings, client: Client, status: Status, meters: AgentMetrics) -> Generator[None]:
    """Serve health and metrics as long as this lasts, if the settings ask for it. Raises SettingsError."""
    if not settings.listen:
        yield
        return
    silence_limit = UNHEALTHY_INTERVALS * settings.interval + MAX_PASS_SECONDS
    pages = AgentSite(status, meters.registry, silence_limit=silence_limit, readiness_limit=settings.readiness_limit)
    authorizer = Authorizer(client) if settings.metrics_auth == "token" else None
    certificates = open_certificates(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
    with serving(settings.listen, pages, authorizer=authorizer, certificates=certificates):
        yield
