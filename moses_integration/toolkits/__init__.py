"""Two toolkits with one interface: an installed Moses, and the embedded one. Both read and write Moses' own files."""
