"""Parts of the escape suite."""
