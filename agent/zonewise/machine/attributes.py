"""The attribute files of one device.

A device's directory is listed once, and only listed files are read. Attributes differ between kernels and between
drivers. So an absent file is not a problem, unless another device of the same kind has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.reader import first_few

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zonewise.machine.reader import Reader

_SHOWN = 8  # maximum number of names in one message
_AS_PRINTED = "as the kernel prints it"


class Attributes:
    """Reads the attributes of one device or of one part of it.

    `fact` is the device's path in the machine ("nics.eth0"), and `what` is its name in messages ("eth0").
    """

    __slots__ = ("fact", "names", "path", "read", "what")

    def __init__(self, read: Reader, path: str, fact: str, what: str) -> None:
        self.read = read
        self.path = path
        self.fact = fact
        self.what = what
        self.names = frozenset(read.names(path))
        """The names that the directory lists; empty for a directory that is absent or cannot be listed."""

    def part(self, name: str, fact: str, what: str = "") -> Attributes:
        """Return the attributes in a directory inside this one; their facts are below `fact`."""
        return Attributes(self.read, f"{self.path}/{name}", f"{self.fact}.{fact}", what or self.what)

    def report_lacking(self, expected: Iterable[str]) -> None:
        """Report, in one entry, the expected names that are not in the directory."""
        if lacking := sorted(name for name in expected if name not in self.names):
            shown = first_few(lacking, _SHOWN)
            unknown = "it is unknown" if len(lacking) == 1 else "they are unknown"
            self.read.problem(self.path, f"lacks {shown}", f"{unknown} for {self.what}")

    def text(self, name: str, field: str, rule: str = _AS_PRINTED) -> str | None:
        """Return an attribute's text; None if it is not listed, cannot be read or is empty."""
        if name not in self.names:
            return None
        needed = f"{field} of {self.what}"
        return self.read.text(f"{self.path}/{name}", fact=f"{self.fact}.{field}", rule=rule, needed=needed)

    def integer(
        self,
        name: str,
        field: str,
        *,
        base: int = 10,
        lowest: int = 0,
        highest: int = (1 << 64) - 1,
        rule: str = "the number in the file",
        needed: bool = True,
        no_number: Callable[[bytes], bool] | None = None,
    ) -> int | None:
        """Return an attribute's number in lowest..highest; None if it is not listed or contains no number.

        With `needed` it is a problem if the driver has no number (EINVAL). Links that are down and counters that the
        hardware lacks have none. `no_number` recognizes content with the same meaning.
        """
        if name not in self.names:
            return None
        path, what = f"{self.path}/{name}", f"{field} of {self.what}"
        before = len(self.read.problems)
        lost = what if needed else ""
        value = self.read.integer(path, base=base, fact=f"{self.fact}.{field}", rule=rule, needed=lost)
        if value is None and not needed:
            self._judge(path, what, before, no_number)
        if value is None or lowest <= value <= highest:
            return value
        self.read.problem(path, f"contains {value}, outside of {lowest}..{highest}", f"{what} is unknown")
        return None

    def _judge(self, path: str, what: str, before: int, no_number: Callable[[bytes], bool] | None) -> None:
        """Report content that is not a number, unless the driver has none: reads the attribute a second time."""
        problems = self.read.problems
        after = len(problems)
        content = self.read.raw(path)
        del problems[after:]
        if content is None:
            return
        if no_number is not None and no_number(content):
            del problems[before:]
        elif after == before:
            self.read.problem(path, "contains nothing", f"{what} is unknown")
