from bench.spread import main

main()
