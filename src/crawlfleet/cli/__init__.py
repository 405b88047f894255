"""The command line: the same program runs a fleet, and talks to one."""


def main() -> None:
    """The console script."""
    import sys

    from crawlfleet.cli.program import create_app

    create_app(sys.argv[1:])(prog_name="crawlfleet")
