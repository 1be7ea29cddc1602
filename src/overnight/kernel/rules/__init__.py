"""What people declare: rules, roles, combinations and settings, from AGENTS.md to a compiled matrix."""
