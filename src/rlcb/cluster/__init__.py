"""Several machines: how they find each other, and who among them does what."""
