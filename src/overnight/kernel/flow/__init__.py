"""Where values came from, how secret they are, and whom a call would tell them to."""
