"""Books the resources of leases to their projects: once for several alike in a row.

Hundreds of leases come and go in one commit, nearly all of one project and with the same demand: to
book each would cost the master more than to keep the lease itself.
"""

from crawlfleet.control.state.retry_gate import RetryBudgets
from crawlfleet.core.placement.tenancy import Tenancy
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.model.resources import Resources

Entry = tuple[str, Resources, bool, float | None]
"""Common features of leases in a row: their project, the resources of each, whether they come or
go, and the start time of first attempts.
"""


class Holdings:
    """Collects leases that come and go; callers `settle` before the books are read."""

    def __init__(self, tenancy: Tenancy, budgets: RetryBudgets) -> None:
        self._tenancy = tenancy
        self._budgets = budgets
        self._entry: Entry | None = None
        self._times = 0

    def take(self, lease: Lease) -> None:
        """Note a new lease."""
        execution = lease.execution
        first_at = None if execution.retry_count else execution.start_time
        self._note((lease.task.project_id, execution.reserved, True, first_at))

    def give_back(self, lease: Lease) -> None:
        """Note that a lease has ended."""
        self._note((lease.task.project_id, lease.execution.reserved, False, None))

    def settle(self) -> None:
        """Book the noted leases. May be called twice."""
        entry, times = self._entry, self._times
        self._entry, self._times = None, 0
        if entry is None:
            return
        project_id, amount, is_new, first_at = entry
        if not is_new:
            self._tenancy.give_back(project_id, amount, times)
            return
        self._tenancy.take(project_id, amount, times)
        if first_at is not None:
            self._budgets.count_first(project_id, first_at, times)

    def _note(self, entry: Entry) -> None:
        if entry != self._entry:
            self.settle()
            self._entry = entry
        self._times += 1
