"""Compares runs: numbers, statistics, pictures, one page. Reads the files of runs, and needs no torch."""
