"""The append-only, tamper-evident record: written ahead, hashed, signed, anchored, checked. See `docs/journal.md`."""
