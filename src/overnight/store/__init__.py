"""Floor 0: where things are kept. Git, SQL and blobs are reached only through this package."""
