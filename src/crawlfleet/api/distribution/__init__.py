"""The HTTP API below `/api/distribution`, for programs that were written for it."""
