"""The dashboard: a page that was built ahead, and what serves it. Its sources are in /dashboard."""

from crawlfleet.dashboard.serving import Dashboard

__all__ = ["Dashboard"]
