"""The command line: the same program runs a fleet, and talks to one."""


def main() -> None:
    """The console script."""
    import sys

    from crawlfleet.cli.shell.loop import loading

    with loading():
        from crawlfleet.cli.shell.program import create_app

        program = create_app(sys.argv[1:])
    program(prog_name="crawlfleet")
