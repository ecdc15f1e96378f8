"""Amounts of quota: 64-bit integers, one of which means "unlimited" (pkg/resources/amount.go, requests.go).

Sums and differences are unlimited or saturate at 64 bits. CPUs are in milli-CPU; bytes and all other resources are in
their own unit.
"""

from functools import lru_cache

from zonewise_common.k8s.quantity import format_binary_quantity, format_quantity, parse_milli_value, parse_value

UNLIMITED = (1 << 63) - 1
"""A quota that exceeds every other amount. A sum that reaches it is unlimited too."""

MIN_AMOUNT = -(1 << 63)

_CPU = "cpu"
_SIZES = frozenset({"memory", "ephemeral-storage"})
_HUGE_PAGES = "hugepages-"


def plus(a: int, b: int) -> int:
    """Return the sum; it is unlimited if `a` or `b` is."""
    if a == UNLIMITED or b == UNLIMITED:  # noqa: PLR1714 -- simulated preemption adds millions of amounts
        return UNLIMITED
    total = a + b
    return total if MIN_AMOUNT <= total <= UNLIMITED else _saturated(total)


def minus(a: int, b: int) -> int:
    """Return the difference: 0 if both amounts are unlimited, and MIN_AMOUNT if only `b` is."""
    if a == UNLIMITED:
        return 0 if b == UNLIMITED else UNLIMITED
    if b == UNLIMITED:
        return MIN_AMOUNT
    difference = a - b
    return difference if MIN_AMOUNT <= difference <= UNLIMITED else _saturated(difference)


def amount_from_quantity(resource: str, quantity: str | int) -> int:
    """Return a quota as an amount, unlimited if too large for 64 bits. Raises ValueError if it is not a quantity."""
    if resource != _CPU:
        return min(parse_value(quantity), UNLIMITED)
    milli = parse_milli_value(quantity)
    return UNLIMITED if milli >= UNLIMITED // 1000 * 1000 else milli


def resource_value(resource: str, quantity: str | int) -> int:
    """Return a request as an amount, saturated at 64 bits. Raises ValueError if it is not a quantity."""
    return from_thousandths(resource, parse_milli_value(quantity))


def from_thousandths(resource: str, thousandths: int) -> int:
    """Return an amount that was summed up in thousandths of its unit, rounded up once."""
    return _saturated(thousandths if resource == _CPU else -(-thousandths // 1000))


def amount_text(resource: str, amount: int) -> str:
    """Return an amount as a canonical quantity: sizes with binary suffixes, other resources with decimal ones.

    Source: pkg/resources/requests.go ResourceQuantity.
    """
    if resource == _CPU:
        return f"{amount}m" if amount % 1000 else format_quantity(amount // 1000)
    is_size = resource in _SIZES or resource.startswith(_HUGE_PAGES)
    return format_binary_quantity(amount) if is_size else format_quantity(amount)


@lru_cache(maxsize=1024)
def hash_resource_name(resource: str) -> int:
    """Return the hash that orders resources; the first resource that lacks quota is reported.

    It is the 64-bit FNV-1a hash of the name (pkg/resources/slice_requests.go hashResourceName).
    """
    value = 0xCBF29CE484222325
    for byte in resource.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def _saturated(amount: int) -> int:
    if MIN_AMOUNT <= amount <= UNLIMITED:
        return amount
    return UNLIMITED if amount > UNLIMITED else MIN_AMOUNT
