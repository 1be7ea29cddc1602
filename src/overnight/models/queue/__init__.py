"""Time-sharing of a scarce model."""
