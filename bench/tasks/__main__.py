from bench.tasks import main

main()
