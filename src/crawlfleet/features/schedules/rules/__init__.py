"""Decisions of schedules: cron expressions, intervals, what is due."""
