"""Videos of an agent at play, and a window to watch it."""
