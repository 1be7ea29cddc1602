"""What waits for a person, who may decide it, and what is in force as they last trusted it."""
