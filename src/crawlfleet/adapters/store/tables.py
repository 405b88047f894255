"""All tables whose rows a change may carry: every store keeps these."""

from typing import Any, Final

from crawlfleet.features.alerts.table import ALERT_RULES
from crawlfleet.features.schedules.table import FIRINGS, SCHEDULES
from crawlfleet.features.secrets.table import SECRETS
from crawlfleet.features.webhooks.table import DELIVERIES, WEBHOOKS
from crawlfleet.features.workflows.table import RUN_STEPS, RUNS, WORKFLOW_VERSIONS, WORKFLOWS
from crawlfleet.ports.kernel_tables import (
    BUNDLES,
    CLUSTERS,
    CONFIGURATIONS,
    KEYS,
    MEASURED_RUNS,
    PROJECTS,
    USAGE,
)
from crawlfleet.ports.tables import Table

TABLES: Final[tuple[Table[Any], ...]] = (
    PROJECTS,
    CLUSTERS,
    CONFIGURATIONS,
    KEYS,
    MEASURED_RUNS,
    USAGE,
    ALERT_RULES,
    BUNDLES,
    DELIVERIES,
    FIRINGS,
    SCHEDULES,
    SECRETS,
    WEBHOOKS,
    RUN_STEPS,
    RUNS,
    WORKFLOW_VERSIONS,
    WORKFLOWS,
)
