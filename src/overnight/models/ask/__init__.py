"""Answering a prompt at the lowest tier that can."""
