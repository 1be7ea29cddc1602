"""Putting things back: an action or a whole session, newest change first."""
