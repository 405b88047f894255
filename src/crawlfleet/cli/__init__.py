"""The command line: the same program runs a fleet, and talks to one."""


def main() -> None:
    """The console script."""
    from crawlfleet.cli.program import create_app

    create_app()(prog_name="crawlfleet")
