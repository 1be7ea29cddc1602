"""Providers: how each is reached, and what its failures mean."""
