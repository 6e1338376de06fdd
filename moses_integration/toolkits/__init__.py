"""Two toolkits with one interface: an installed Moses, and the embedded one. Both use Moses' file formats."""
