"""Compare the BLEU of tuned systems with and without the neural scores."""
