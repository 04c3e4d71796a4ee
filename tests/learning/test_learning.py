"""Each algorithm learns one level of a real game for certain; with a broken loss, a wrong sign or without bootstrap it
does not (each was broken once to see it fail; CONTRIBUTING.md says how)."""
