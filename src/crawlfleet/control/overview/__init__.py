"""Data for the first page of the dashboard: concerns that need attention, and the last hour."""
