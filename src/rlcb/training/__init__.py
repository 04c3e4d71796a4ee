"""Who collects, who learns, when it ends. `loop.train` is the one training loop; executions plug into it."""
