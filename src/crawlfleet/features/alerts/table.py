"""Rules for alerts as they are stored."""

from typing import Final

from crawlfleet.features.alerts.model import AlertRule
from crawlfleet.ports.tables import Table

ALERT_RULES: Final = Table(
    AlertRule,
    "crawler_alert_rules",
    columns=("id", "name", "project_id", "created_at", "updated_at", "removed_at", "version"),
)
