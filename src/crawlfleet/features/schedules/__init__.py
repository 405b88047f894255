"""Schedules: tasks and workflows at due instants."""
