"""Alerts for programs."""

from typing import Any

from crawlfleet.client.http.calls import Calls, as_query, segment
from crawlfleet.features.alerts.views import AlertPage, AlertView


class AlertCalls(Calls):
    """Calls about alert rules, which say when people are notified."""

    async def alerts(
        self,
        *,
        status: str | None = None,
        project_id: str | None = None,
        name: str | None = None,
    ) -> list[AlertView]:
        """Return all rules, or those that are `firing`, with their present states."""
        query = as_query({"status": status, "project_id": project_id, "name": name})
        return (await self._get("/alerts", AlertPage, query)).items

    async def alert(self, alert_id: str) -> AlertView:
        """Return one rule."""
        return await self._get(_path(alert_id), AlertView)

    async def create_alert(self, name: str, source: str, **fields: Any) -> AlertView:
        """Create a rule: `source` `above` or `below` a value notifies people, and so on."""
        body = {"name": name, "source": source, **fields}
        return await self._post("/alerts", AlertView, body)

    async def change_alert(
        self, alert_id: str, *, if_version: int | None = None, **fields: Any
    ) -> AlertView:
        """Change a rule, or switch it off (`is_on=False`); fields that are left out stay."""
        return await self._patch(_path(alert_id), AlertView, fields, if_version)

    async def silence_alert(
        self, alert_id: str, for_s: float, *, subject: str = "", reason: str = ""
    ) -> AlertView:
        """Silence a rule, or one subject of it, for a while: no notifications are sent."""
        body = {"for_s": for_s, "subject": subject, "reason": reason}
        return await self._post(f"{_path(alert_id)}:silence", AlertView, body)

    async def unsilence_alert(self, alert_id: str, *, subject: str | None = None) -> AlertView:
        """Lift its silences, or that of one thing."""
        return await self._post(f"{_path(alert_id)}:unsilence", AlertView, {"subject": subject})

    async def remove_alert(
        self, alert_id: str, *, if_version: int | None = None
    ) -> AlertView | None:
        """Remove a rule. Returns `None` when the answer was lost, and the rule is gone."""
        return await self._remove(f"{_path(alert_id)}:remove", AlertView, None, if_version)


def _path(alert_id: str) -> str:
    return f"/alerts/{segment(alert_id)}"
