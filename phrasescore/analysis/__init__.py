"""What a network has learnt: its vectors, its gates, its samples, its scores word by word."""
