"""Floor 0: what every part needs and nothing depends on less: errors, ids, clock, escaping, settings schema."""
