"""A Workload that waits for capacity, the objects created for it, and an autoscaler played by a test."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch
from zonewise_scheduler.controller.admissionchecks.provisioning import (
    ProvisioningContext,
    ProvisioningState,
    next_provisioning_writes,
)
from zonewise_scheduler.controller.admissionchecks.provisioning_config import ProvisioningConfig, RetryStrategy
from zonewise_scheduler.controller.admissionchecks.provisioning_request import POD_TEMPLATES, PROVISIONING_REQUESTS
from zonewise_scheduler.controller.types import Verb
from zonewise_scheduler.controller.workloads.status import EvictionCause, evict, release_quota

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.types import ObjectKey, Write

Json = dict[str, Any]

NOW = 1_800_000_000.0
CHECK = "capacity"
CONFIG = ProvisioningConfig("check-capacity", {"size": "large"}, retry=RetryStrategy(2, 60, 100))
FLAVORS: dict[str, Json] = {
    "f": {"spec": {"nodeLabels": {"pool": "p"}, "tolerations": [{"key": "t", "operator": "Exists"}]}}
}


def container(**resources: Json) -> Json:
    """Return a container with requests and limits."""
    return {"name": "c", "image": "i", "resources": resources}


def pod_set(name: str, count: int = 1, cpu: str = "1", **spec: Any) -> Json:
    """Return a pod set of one container."""
    template = {"metadata": {"labels": {"set": name}}, "spec": {"containers": [container(requests={"cpu": cpu})]}}
    template["spec"] |= spec
    return {"name": name, "count": count, "template": template}


def workload(*pod_sets: Json, checks: tuple[str, ...] = (CHECK,), annotations: Mapping[str, str] | None = None) -> Json:
    """Return a Workload with quota and pending checks."""
    sets = pod_sets or (pod_set("main", 3),)
    assignments = [{"name": item["name"], "count": item["count"], "flavors": {"cpu": "f"}} for item in sets]
    return {
        "metadata": {
            "name": "w",
            "namespace": "ns",
            "uid": "u-w",
            "resourceVersion": "1",
            "annotations": annotations or {},
        },
        "spec": {"podSets": list(sets), "active": True},
        "status": {
            "admission": {"clusterQueue": "q", "podSetAssignments": assignments},
            "conditions": [{"type": "QuotaReserved", "status": "True"}],
            "admissionChecks": [{"name": name, "state": "Pending", "message": ""} for name in checks],
        },
    }


class ProvisioningStory:
    """The objects of one Workload; writes take effect at once."""

    def __init__(self, obj: Json, checks: Mapping[str, ProvisioningConfig | None] | None = None) -> None:
        """`checks`: as in ProvisioningContext; by default, the one check."""
        self.workload = obj
        self.checks = {CHECK: CONFIG} if checks is None else dict(checks)
        self.objects: dict[ObjectKey, Json] = {}
        self.now = NOW
        self._uids = 0

    @property
    def check(self) -> Json:
        """The first check of the Workload."""
        return self.workload["status"]["admissionChecks"][0]

    @property
    def requests(self) -> dict[str, Json]:
        return {key.name: obj for key, obj in self.objects.items() if key.resource == PROVISIONING_REQUESTS}

    @property
    def pod_templates(self) -> dict[str, Json]:
        return {key.name: obj for key, obj in self.objects.items() if key.resource == POD_TEMPLATES}

    def writes(self) -> list[Write]:
        """Return the next writes."""
        state = ProvisioningState(self.workload, self.requests, self.pod_templates)
        return next_provisioning_writes(state, ProvisioningContext(self.checks, FLAVORS, self.now))

    def settle(self) -> list[str]:
        """Apply writes until there are none; return their purposes."""
        purposes: list[str] = []
        for _ in range(20):
            writes = self.writes()
            if not writes:
                return purposes
            assert len({write.key for write in writes}) == len(writes)
            for write in writes:
                self._carry_out(write)
                purposes.append(write.purpose)
        raise AssertionError(f"not settled: {purposes}")

    def observe(self, name: str, *conditions: str, **status: Any) -> None:
        """Set conditions of a request as the autoscaler does."""
        entries = [{"type": item, "status": "True", "message": f"{item} message"} for item in conditions]
        self.requests[name]["status"] = {"conditions": entries, **status}

    def evict(self) -> None:
        """Evict the Workload and release its quota, as the controller does."""
        for body in (
            evict(self.workload, EvictionCause("AdmissionCheck", "m"), self.now),
            release_quota(self.workload, self.now),
        ):
            assert body is not None
            self._patch_workload(body)

    def reserve_again(self) -> None:
        """Give the Workload quota again."""
        admission = workload(*self.workload["spec"]["podSets"])["status"]["admission"]
        conditions = [{"type": "QuotaReserved", "status": "True"}]
        self._patch_workload({"status": {"admission": admission, "conditions": conditions}})

    def _patch_workload(self, body: Json) -> None:
        changed: Any = merge_patch(copy.deepcopy(self.workload), copy.deepcopy(body))
        self.workload = changed

    def _carry_out(self, write: Write) -> None:
        if write.verb is Verb.DELETE:
            obj = self.objects.pop(write.key)
            assert write.uid == obj["metadata"]["uid"]
            owned = [key for key, other in self.objects.items() if _owner(other) == write.uid]
            for key in owned:
                del self.objects[key]
        elif write.verb is Verb.CREATE:
            assert write.key not in self.objects
            assert isinstance(write.body, dict)
            self._uids += 1
            obj = copy.deepcopy(write.body)
            obj["metadata"] |= {"uid": f"u{self._uids}", "resourceVersion": "1"}
            self.objects[write.key] = obj
        else:
            assert isinstance(write.body, dict)
            if write.key in self.objects:
                changed: Any = merge_patch(self.objects[write.key], copy.deepcopy(write.body))
                self.objects[write.key] = changed
            else:
                assert write.uid == "u-w"
                self._patch_workload(write.body)


def _owner(obj: Json) -> str:
    return obj["metadata"]["ownerReferences"][0]["uid"]
