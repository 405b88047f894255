"""The port for the installation of packages that bundles require."""

from collections.abc import Callable, Sequence
from typing import Protocol

from crawlfleet.model.task import ErrorClass


class InstallFailed(Exception):
    """The packages could not be installed; `error_class` says whether trying again can help."""

    def __init__(self, message: str, error_class: ErrorClass, details: str = "") -> None:
        super().__init__(message)
        self.error_class = error_class
        self.details = details


class Install(Protocol):
    """Makes a virtual environment with packages."""

    async def __call__(
        self, requirements: Sequence[str], venv: str, tell: Callable[[str], None]
    ) -> None:
        """Install the packages; `tell` gets lines of output. Raises `InstallFailed`; when
        cancelled, no process of it goes on.
        """
        ...
