"""Overnight: an operating system for agents. Leave agents working; wake up to results you can trust."""

__version__ = "0.1.0"
