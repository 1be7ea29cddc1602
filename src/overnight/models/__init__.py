"""Models: tiers, the router, and the gateway that all model traffic goes through. See `docs/models.md`."""
