"""What a network has learnt: its vectors, its gates, its samples, and how its scores rank good and bad pairs."""
