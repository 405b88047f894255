"""`python -m bench.sandbox`."""

from bench.sandbox.run import main

main()
