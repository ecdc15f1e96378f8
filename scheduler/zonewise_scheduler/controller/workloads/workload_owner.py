"""The job that owns a Workload, and the user who submitted it, as the object names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.quota.api.submitted_by import read_submitter

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import Json


def owner_of(obj: Json | None) -> tuple[str, str]:
    """Return the kind and name of the job that owns a Workload; ("", "") if no job owns it."""
    references: list[Json] = (obj or {}).get("metadata", {}).get("ownerReferences") or []
    controllers = [each for each in references if each.get("controller")] or references
    return (str(controllers[0].get("kind", "")), str(controllers[0].get("name", ""))) if controllers else ("", "")


def user_of(obj: Json | None) -> str:
    """Return the user who submitted the job of a Workload; "" if unknown."""
    return read_submitter(FieldReader(obj or {}, "", []).child("metadata"))
