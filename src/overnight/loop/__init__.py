"""Floor 6: the loop. An arena is improved by experiments, each proposed, checked, measured, judged and recorded."""
