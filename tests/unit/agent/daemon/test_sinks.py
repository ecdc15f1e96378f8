"""Sinks of snapshots: files that are complete at every moment, and publishers whose writes are counted."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from support.waiting import PATIENCE, eventually
from zonewise.daemon.metrics import AgentMetrics
from zonewise.daemon.settings import Settings
from zonewise.daemon.sinks import FileSink, NrtSink, PublishingSink, documents
from zonewise.daemon.status import Snapshot, Status
from zonewise.objects.features import Features
from zonewise.objects.node_feature import node_feature
from zonewise.publish.nrt_publisher import DELETED, EDITED, NO_WRITE, ForeignChange, WriteResult
from zonewise.publish.repair_pauses import AT_ONCE
from zonewise_common.kube.backoff import Backoff
from zonewise_common.kube.client import Client, PatchKind
from zonewise_common.kube.errors import ApiError, NotFound, TransportError
from zonewise_common.kube.reflector import WatchTimes
from zonewise_common.kube.resources import EVENTS, NODE_RESOURCE_TOPOLOGIES, NODES
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CRD = Path(__file__).parents[4] / "manifests" / "base" / "noderesourcetopologies.yaml"
TIMES = WatchTimes(backoff=Backoff(base=0.01, cap=0.05))
SNAPSHOT = Snapshot("n1", nrt={"kind": "NodeResourceTopology", "zones": []}, labels={"a": "b"})


def a_status() -> Status:
    status = Status(lambda: 0.0)
    status.expect(["file"])
    return status


def test_file(tmp_path: Path) -> None:
    """The file contains the objects as YAML documents and is replaced only if they change."""
    path = tmp_path / "out.yaml"
    sink = FileSink(str(path), a_status())
    sink.submit(SNAPSHOT)
    assert list(yaml.safe_load_all(path.read_text())) == documents(SNAPSHOT)
    first = path.stat().st_ino
    sink.submit(SNAPSHOT)
    assert path.stat().st_ino == first
    sink.submit(SNAPSHOT._replace(labels={"a": "c"}))
    assert "a: c" in path.read_text()
    assert [name.name for name in tmp_path.iterdir()] == ["out.yaml"]


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    """A FIFO or a device is written to but not replaced; a link remains, and its target is written."""
    fifo, link, file = tmp_path / "fifo", tmp_path / "link", tmp_path / "file"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        FileSink(str(fifo), Status(lambda: 0.0)).submit(SNAPSHOT)
        assert list(yaml.safe_load_all(os.read(reader, 1 << 16))) == documents(SNAPSHOT)
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    link.symlink_to(file)
    FileSink(str(link), Status(lambda: 0.0)).submit(SNAPSHOT)
    assert link.is_symlink()
    assert list(yaml.safe_load_all(file.read_text())) == documents(SNAPSHOT)


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    """A dash stands for standard output."""
    FileSink("-", a_status()).submit(SNAPSHOT)
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == documents(SNAPSHOT)


def test_a_pipe_is_written_to() -> None:
    """/dev/stderr is a link to a pipe, whose target has no path."""
    reader, writer = os.pipe()
    try:
        FileSink(f"/proc/self/fd/{writer}", Status(lambda: 0.0)).submit(SNAPSHOT)
        assert os.read(reader, 4) == b"---\n"
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.timeout(30)
def test_a_fifo_without_a_reader_is_not_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    FileSink(str(fifo), Status(lambda: 0.0)).submit(SNAPSHOT)
    assert f"cannot write to {fifo}: No such device or address" in caplog.text


def test_a_file_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The error is logged once and counts as no publication; the next submit tries again."""
    path, status = tmp_path / "missing" / "out.yaml", a_status()
    sink = FileSink(str(path), status)
    sink.submit(SNAPSHOT)
    sink.submit(SNAPSHOT)
    assert [record.getMessage() for record in caplog.records] == [f"cannot write to {path}: No such file or directory"]
    assert status.age() is None
    path.parent.mkdir()
    sink.submit(SNAPSHOT)
    assert path.exists()
    assert status.age() == 0.0


def test_nothing_is_left_beside_a_file_that_cannot_be_replaced(tmp_path: Path) -> None:
    """One reason is a directory with the same name."""
    (tmp_path / "out.yaml").mkdir()
    FileSink(str(tmp_path / "out.yaml"), a_status()).submit(SNAPSHOT)
    assert [path.name for path in tmp_path.iterdir()] == ["out.yaml"]


@pytest.mark.parametrize(
    ("settings", "kinds"),
    [
        (Settings(), ["NodeResourceTopology", "Node"]),
        (Settings(publish_labels="node"), ["NodeResourceTopology", "Node"]),
        (Settings(publish_labels="off"), ["NodeResourceTopology"]),
        (Settings(publish_nrt=False), ["Node"]),
        (Settings(publish_nrt=False, publish_labels="nodefeature"), ["NodeFeature"]),
        (Settings(publish_nrt=False, publish_labels="off"), []),
    ],
)
def test_objects_are_those_that_the_settings_publish(settings: Settings, kinds: list[str]) -> None:
    assert [document["kind"] for document in documents(SNAPSHOT, settings)] == kinds


def test_a_node_feature_has_labels_and_features() -> None:
    settings = Settings(publish_nrt=False, publish_labels="nodefeature", namespace="zonewise")
    snapshot = SNAPSHOT._replace(features=Features({"cpu.cpuid": ("AVX",)}, {}, {}))
    assert documents(snapshot, settings) == [node_feature("n1", {"a": "b"}, snapshot.features, namespace="zonewise")]


def test_without_reports_labels_alone_count_as_published(tmp_path: Path) -> None:
    status = a_status()
    FileSink(str(tmp_path / "out.yaml"), status, Settings(publish_nrt=False)).submit(SNAPSHOT._replace(nrt=None))
    assert status.age() == 0.0


def test_the_last_report_remains_in_the_file(tmp_path: Path) -> None:
    """While the kubelet is down, the last report remains beside newer labels, but is not confirmed to be current."""
    path, status = tmp_path / "out.yaml", a_status()
    sink = FileSink(str(path), status)
    sink.submit(SNAPSHOT._replace(nrt=None))
    assert status.age() is None
    sink.submit(SNAPSHOT)
    sink.submit(SNAPSHOT._replace(nrt=None, labels={"a": "c"}))
    assert list(yaml.safe_load_all(path.read_text())) == documents(SNAPSHOT._replace(labels={"a": "c"}))


def test_documents_without_a_report() -> None:
    """Before the first report, there are labels but no NodeResourceTopology."""
    (node,) = documents(SNAPSHOT._replace(nrt=None))
    assert node == {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"a": "b"}}}


def publishing(publish: Callable[[Snapshot], WriteResult]) -> tuple[PublishingSink, Status, AgentMetrics]:
    status, meters = Status(lambda: 0.0), AgentMetrics()
    status.expect(["nrt"])
    return PublishingSink("nrt", publish, lambda snapshot: snapshot.nrt is not None, status, meters), status, meters


def value(meters: AgentMetrics, name: str, **labels: str) -> float | None:
    return meters.registry.get_sample_value(name, labels)


def test_writes_are_counted() -> None:
    """Writes and bytes are counted by operation. An object that needs no write is also confirmed to be current."""
    results = [WriteResult("apply", 4000), WriteResult("patch", 600), NO_WRITE]
    sink, status, meters = publishing(lambda snapshot: results.pop(0))
    assert status.age() is None
    for _ in range(3):
        sink.submit(SNAPSHOT)
        assert sink.wait(PATIENCE)
    sink.close()
    assert value(meters, "zonewise_publish_size_bytes_count", object="nrt", operation="patch") == 1
    assert value(meters, "zonewise_publish_size_bytes_count", object="nrt", operation="none") is None
    assert value(meters, "zonewise_publish_size_bytes_sum", object="nrt", operation="apply") == 4000
    assert status.age() == 0.0


def test_repairs_and_unknown_objects() -> None:
    """Repairs are counted by cause.

    The age of an object that is not current is unknown or that of its last confirmation.
    """
    results = [NO_WRITE._replace(age=None), WriteResult("patch", 1, ForeignChange(EDITED, "kubectl"), 5.0)]
    sink, status, meters = publishing(lambda snapshot: results.pop(0))
    ages: list[float | None] = []
    for _ in range(2):
        sink.submit(SNAPSHOT)
        assert sink.wait(PATIENCE)
        ages.append(status.age())
    sink.close()
    assert ages == [None, 5.0]
    assert value(meters, "zonewise_publish_repairs_total", object="nrt", cause=EDITED) == 1


@pytest.fixture
def client() -> Iterator[Client]:
    """Return a client of a server that has the Node n1."""
    with ApiServer(crds=[CRD]) as server, contextlib.closing(Client(server.client_config())) as made:
        made.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        yield made


def test_the_topology_is_repaired_whatever_is_done_to_it(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """Edits and deletions are undone without a new snapshot; repeated changes by another program delay the repairs."""
    nrt = {
        "apiVersion": NODE_RESOURCE_TOPOLOGIES.api_version, "kind": "NodeResourceTopology",
        "metadata": {"name": "n1"}, "attributes": [{"name": "a", "value": "b"}], "zones": [],
    }  # fmt: skip
    status, meters = Status(lambda: 0.0), AgentMetrics()
    meters.watch(status)
    status.expect(["nrt"])
    watching = NODE_RESOURCE_TOPOLOGIES.plural

    def version(attributes: object) -> int:
        """Return the version of the object, or 0 if it does not exist or has other attributes."""
        try:
            current = client.get(NODE_RESOURCE_TOPOLOGIES, "n1")
        except NotFound:
            return 0
        return int(current["metadata"]["resourceVersion"]) if current["attributes"] == attributes else 0

    with contextlib.closing(NrtSink(client, "n1", status, meters, watch_times=TIMES)) as sink:
        sink.submit(Snapshot("n1", nrt=nrt))
        eventually(lambda: value(meters, "zonewise_watch_age_seconds", resource=watching) == 0)
        for number in range(AT_ONCE + 1):
            before = version(nrt["attributes"])
            assert before
            if number % 2:
                client.delete(NODE_RESOURCE_TOPOLOGIES, "n1")
            else:
                client.patch(NODE_RESOURCE_TOPOLOGIES, "n1", {"attributes": []}, kind=PatchKind.MERGE)
            eventually(lambda last=before: version(nrt["attributes"]) > last)
        eventually(lambda: [repairs(meters, cause) for cause in (EDITED, DELETED)] == [3, 3])
    assert value(meters, "zonewise_watch_age_seconds", resource=watching) is None  # closed
    assert status.age() is not None
    (written,) = client.list(EVENTS).items
    assert (written["involvedObject"]["name"], written["count"]) == ("n1", AT_ONCE + 1)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings[-1].endswith("6 times within 600 s; the next repair is delayed by 2 s")


def repairs(meters: AgentMetrics, cause: str) -> float | None:
    return value(meters, "zonewise_publish_repairs_total", object="nrt", cause=cause)


@pytest.mark.parametrize(
    ("error", "reason"), [(ApiError(403, "Forbidden", "no"), "Forbidden"), (TransportError("x"), "TransportError")]
)
def test_failures_are_counted(error: Exception, reason: str) -> None:
    """Failures are counted by reason, and the object is not confirmed to be current."""
    failures = [error]

    def publish(snapshot: Snapshot) -> WriteResult:
        if failures:
            raise failures.pop()
        return NO_WRITE

    sink, _, meters = publishing(publish)
    sink.submit(SNAPSHOT)
    assert sink.wait(PATIENCE)
    sink.close()
    assert value(meters, "zonewise_publish_errors_total", object="nrt", reason=reason) == 1


def test_nothing_to_publish() -> None:
    """A snapshot without the object is skipped."""
    published: list[Snapshot] = []
    sink, _, _ = publishing(lambda snapshot: published.append(snapshot) or NO_WRITE)
    sink.submit(SNAPSHOT._replace(nrt=None))
    assert sink.wait(PATIENCE)
    sink.close()
    assert published == []
