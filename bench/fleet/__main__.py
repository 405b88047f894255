"""`python -m bench.fleet`."""

from bench.fleet.run import main

main()
