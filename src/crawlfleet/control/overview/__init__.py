"""What the dashboard shows first: what needs attention, and the last hour."""
