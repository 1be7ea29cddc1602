"""What a run found, for a person: a chart, and one self-contained page."""
