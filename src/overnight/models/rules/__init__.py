"""Tier 0: requests that need no model."""
