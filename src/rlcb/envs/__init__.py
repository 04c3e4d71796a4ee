"""What the agent sees."""
