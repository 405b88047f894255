"""Alerts: rules over events and measurements, and the notices that they cause."""
