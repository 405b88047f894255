from bench.crawl import main

main()
