"""Problems for benchmarks/search.py."""
