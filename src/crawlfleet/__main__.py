"""`python -m crawlfleet` is the command line."""

from crawlfleet.cli import main

if __name__ == "__main__":
    main()
