"""Floor 8: the composition root. Opens a workspace and wires the parts."""
