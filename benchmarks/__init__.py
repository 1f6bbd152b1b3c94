"""One command each: prints a table and writes JSON. A regular package, because pysbd installs another `benchmarks`."""
