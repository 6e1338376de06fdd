"""What the score column is worth: tuned systems with and without it, compared on BLEU."""
