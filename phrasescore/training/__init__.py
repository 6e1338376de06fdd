"""Learning an encoder-decoder from phrase pairs: loop, optimisers, schedule, checkpoints, metrics."""
