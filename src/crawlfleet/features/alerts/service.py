"""The service for alert rules: create, read, change, silence, remove. The rules are evaluated by
`features.alerts.watcher`.

Rules are read from the store on each request and merged with the built-in ones.
"""

from collections.abc import Callable
from typing import Final

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.if_version import accept, expect_version, has_changed
from crawlfleet.errors import Conflict, FieldProblem, NotFound
from crawlfleet.features.alerts.model import AlertRule, Silence
from crawlfleet.features.alerts.rules import alerts
from crawlfleet.features.alerts.table import ALERT_RULES
from crawlfleet.features.alerts.views import AlertPatch, AlertRequest, SilenceRequest
from crawlfleet.model.change import Change
from crawlfleet.model.ids import ALERT, SILENCE, make_id
from crawlfleet.ports.store import RefusalKind, Store
from crawlfleet.ports.system import System

MAX_RULES: Final = 200
"""Maximum number of rules; the leading master evaluates each of them every few seconds."""


class Alerts:
    """Creates, reads, changes, silences and removes alert rules."""

    def __init__(self, *, store: Store, state: FleetState, system: System) -> None:
        self._store = store
        self._state = state
        self._system = system

    async def all(self) -> list[AlertRule]:
        """All rules, in order of id."""
        return alerts.with_built_ins(await self._store.find(ALERT_RULES.where()))

    async def get(self, alert_id: str) -> AlertRule:
        """The rule, or `NotFound`."""
        found = await self._store.get(ALERT_RULES, alert_id)
        if found is None:
            found = next((each for each in alerts.BUILT_INS if each.id == alert_id), None)
        if found is None or found.removed_at is not None:
            raise NotFound("alert", alert_id)
        return found

    async def create(self, request: AlertRequest, *, by: str) -> tuple[AlertRule, bool]:
        """Create a rule; true if it is new. Raises `Conflict` if another rule has the name."""
        accept(alerts.problems_of(request))
        present = await self.all()
        if len(present) >= MAX_RULES:
            raise Conflict(f"there are {MAX_RULES} rules already; remove one first")
        if request.project_id is None and f"{ALERT}-{request.name}" in alerts.IDS:
            raise Conflict(f"{request.name!r} is the name of a built-in rule; PATCH changes it")
        now = self._system.now()
        change = alerts.new_rule(
            request,
            id=make_id(ALERT, now, self._system.entropy),
            now=now,
            cause=f"created by {by}",
        )
        (made,) = change.of(AlertRule)
        (refusal,) = await self._state.commit([change])
        if refusal is None:
            return made, True
        if refusal.kind is not RefusalKind.CLAIM or refusal.claim is None:
            raise has_changed(made.id)
        there = await self.get(refusal.claim.holder)
        if alerts.essence(there) != alerts.essence(made):
            raise Conflict(
                f"there is a rule {request.name!r} already ({there.id}); PATCH changes it, or "
                "choose another name"
            )
        return there, False

    async def change(
        self, alert_id: str, patch: AlertPatch, *, by: str, if_version: int | None = None
    ) -> AlertRule:
        """Apply a patch to a rule and return the new version."""

        def decide(rule: AlertRule, now: float) -> Change | None:
            after = alerts.patched(rule, patch)
            accept(alerts.problems_of(after))
            return alerts.changed_rule(
                rule, after, what="changed", now=now, cause=f"changed by {by}"
            )

        return await self._make(alert_id, decide, if_version)

    async def silence(self, alert_id: str, request: SilenceRequest, *, by: str) -> AlertRule:
        """Silence a rule, or one of its subjects, for a while."""
        if not (request.subject + request.reason).replace("\n", "").isprintable():
            accept([_unprintable()])

        def decide(rule: AlertRule, now: float) -> Change | None:
            silence = Silence(
                id=make_id(SILENCE, now, self._system.entropy),
                until=now + request.for_s,
                by=by,
                at=now,
                subject=request.subject,
                reason=request.reason,
            )
            after = alerts.silenced(rule, silence, now)
            if len(after.silences) > alerts.MAX_SILENCES:
                raise Conflict(
                    f"{rule.name} has {alerts.MAX_SILENCES} silences; silence all of it, or "
                    "lift some"
                )
            return alerts.changed_rule(
                rule, after, what="silenced", now=now, cause=f"silenced by {by}"
            )

        return await self._make(alert_id, decide, None)

    async def unsilence(self, alert_id: str, subject: str | None, *, by: str) -> AlertRule:
        """Lift the silences of a rule, or that of one subject."""

        def decide(rule: AlertRule, now: float) -> Change | None:
            after = alerts.unsilenced(rule, subject, now)
            return alerts.changed_rule(
                rule, after, what="unsilenced", now=now, cause=f"unsilenced by {by}"
            )

        return await self._make(alert_id, decide, None)

    async def remove(self, alert_id: str, *, by: str, if_version: int | None = None) -> AlertRule:
        """Take a rule away; a built-in one can be switched off instead."""
        if alert_id in alerts.IDS:
            raise Conflict(f"{alert_id} is built in; switch it off instead (`is_on`: false)")

        def decide(rule: AlertRule, now: float) -> Change:
            return alerts.removed_rule(rule, now=now, cause=f"removed by {by}")

        return await self._make(alert_id, decide, if_version)

    async def _make(
        self,
        alert_id: str,
        decide: Callable[[AlertRule, float], Change | None],
        if_version: int | None,
    ) -> AlertRule:
        async def present() -> tuple[AlertRule, Change | None]:
            rule = await self.get(alert_id)
            change = decide(rule, self._system.now())
            if change is None:
                return rule, None
            expect_version(alert_id, rule.version, if_version)
            return change.of(AlertRule)[0], change

        return await self._state.decide(alert_id, present)


def _unprintable() -> FieldProblem:
    return FieldProblem(
        field="subject", message="cannot be printed", remedy="use text without control characters"
    )
