from bench.frontier import main

main()
