"""The record of a run: rows, commits, findings, and what is read out of them."""
