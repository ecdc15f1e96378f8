"""Names of ProvisioningRequests and PodTemplates."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.controller.admissionchecks.provisioning_request import attempt_of, request_name, template_name

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
CHECKS = st.one_of(NAMES, st.sampled_from(["c" * 180, "c" * 253]))


@given(NAMES, CHECKS, st.integers(1, 100))
def test_the_attempt_follows_from_the_name(workload: str, check: str, attempt: int) -> None:
    name = request_name(workload, check, attempt)
    assert len(name) <= 253
    assert attempt_of(name, workload, check) == attempt
    assert attempt_of(name, workload, f"{check}x") == 0
    assert len(template_name(name, "p" * 63)) <= 253


def test_a_name_without_an_attempt_belongs_to_no_check() -> None:
    assert attempt_of("w-c", "w", "c") == 0
    assert attempt_of("w-c-0", "w", "c") == 0
    assert attempt_of("w-c-01", "w", "c") == 0


def test_a_hash_of_digits_is_not_an_attempt() -> None:
    check = "c" * 245
    name = request_name("w", check, 14)
    assert name.endswith("-83233")
    assert attempt_of(name, "w", check) == 14
