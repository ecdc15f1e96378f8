"""What is raised for an input of which nothing can be made."""

from __future__ import annotations


class InputError(ValueError):
    """The text names the file, the field and its value, as far as there are such."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
