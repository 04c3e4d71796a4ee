"""What a run leaves on disk: one writer, many readers."""
