"""Learning an encoder-decoder from phrase pairs or sentences: loop, optimisers, schedule, checkpoints, metrics."""
