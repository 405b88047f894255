"""The order of the code: a public class name means one thing."""

from typing import Final

from tests.architecture.shape import class_names_twice

SHARED: Final = {
    # The runner is a program of its own: it is copied to where user code runs.
    "Frontier",
    "Host",
    "Ledger",
    # One adapter for each database, under the name of the port.
    "Writer",
    # Rows and messages whose subject is their module: `wire`, `protocol`, a feature's model.
    "Check",
    "Format",
    "Holdings",
    "Index",
    "Lease",
    "Limits",
    "Order",
    "Outcome",
    "Output",
    "Part",
    "Portion",
    "Progress",
    "Refused",
    "Reply",
    "Run",
    "Scope",
    "Step",
    "UsageMeter",
}
"""Names that more than one module defines. None is added; each that goes is taken out."""


def test_a_public_class_name_exists_once() -> None:
    twice = {name: [str(path) for path in paths] for name, paths in class_names_twice().items()}
    assert not {name: paths for name, paths in twice.items() if name not in SHARED}
    assert twice.keys() >= SHARED, "these exist once now; take them out of SHARED"
