"""The gateway: one place that all model traffic goes through. See `docs/models.md`."""
