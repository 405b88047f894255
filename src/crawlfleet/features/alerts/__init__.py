"""Alerts: rules over events and figures, and whom they are sent to."""
