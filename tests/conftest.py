"""What holds for all tests."""

from hypothesis import settings

# A machine that is busy with something else must not fail a test: what has to be quick says so.
settings.register_profile("crawlfleet", deadline=None)
settings.load_profile("crawlfleet")
