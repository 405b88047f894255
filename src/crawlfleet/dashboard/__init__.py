"""The dashboard: a prebuilt page, and its server. Its sources are in /dashboard."""

from crawlfleet.dashboard.serving import Dashboard

__all__ = ["Dashboard"]
