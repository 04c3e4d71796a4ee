"""The machine: threads, memory, where the time goes. `prepare` comes before the first import of torch."""
