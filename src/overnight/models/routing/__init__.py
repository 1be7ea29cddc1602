"""Which tier and model a request goes to, and why."""
