"""What the gate knows about a tool, its code, and the arguments of a call."""
