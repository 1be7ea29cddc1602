"""Traces: spans of all work, kept in the workspace's database. See `docs/trace.md`."""
