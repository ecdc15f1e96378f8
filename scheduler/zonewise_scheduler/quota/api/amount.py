"""Amounts of quota: 64-bit integers with one value that stands for "unlimited", which no sum or difference leaves.

CPUs are counted in milli-CPU, bytes and all else in their unit (Kueue pkg/resources/amount.go, requests.go).
"""

from functools import lru_cache

from zonewise_common.k8s.quantity import parse_milli_value, parse_value

UNLIMITED = (1 << 63) - 1
"""Of a quota; larger than any other amount. Sums that reach it are unlimited too."""

MIN_AMOUNT = -(1 << 63)

_CPU = "cpu"


def plus(a: int, b: int) -> int:
    """Return the sum; unlimited where a part is."""
    return UNLIMITED if UNLIMITED in (a, b) else _saturated(a + b)


def minus(a: int, b: int) -> int:
    """Return the difference: of two unlimited amounts 0, and LEAST where only `other` is unlimited."""
    if a == UNLIMITED:
        return 0 if b == UNLIMITED else UNLIMITED
    return MIN_AMOUNT if b == UNLIMITED else _saturated(a - b)


def amount_from_quantity(resource: str, quantity: str | int) -> int:
    """Return a quota; one too large for 64 bits is unlimited. Raises ValueError for what is no quantity."""
    if resource != _CPU:
        return min(parse_value(quantity), UNLIMITED)
    milli = parse_milli_value(quantity)
    return UNLIMITED if milli >= UNLIMITED // 1000 * 1000 else milli


def resource_value(resource: str, quantity: str | int) -> int:
    """Return what is requested as an amount, cut to 64 bits. Raises ValueError for what is no quantity."""
    return from_thousandths(resource, parse_milli_value(quantity))


def from_thousandths(resource: str, thousandths: int) -> int:
    """Return an amount that was summed in thousandths of its unit, rounded up once."""
    return _saturated(thousandths if resource == _CPU else -(-thousandths // 1000))


@lru_cache(maxsize=1024)
def hash_resource_name(resource: str) -> int:
    """Return a number by which resources are gone through in order: which of them lacks first is told, no other.

    The 64-bit FNV-1a hash of the name (pkg/resources/slice_requests.go).
    """
    found = 0xCBF29CE484222325
    for byte in resource.encode():
        found = (found ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return found


def _saturated(amount: int) -> int:
    return amount if MIN_AMOUNT <= amount <= UNLIMITED else UNLIMITED if amount > 0 else MIN_AMOUNT
