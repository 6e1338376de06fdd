"""What the numbers in the README come from, one command each."""
