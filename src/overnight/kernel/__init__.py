"""Floor 2: the gate. Every action of an agent is decided in code before it happens, and journaled."""
