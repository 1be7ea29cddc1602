"""Signed capabilities: who may do what, until when."""
