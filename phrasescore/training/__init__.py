"""Train an encoder-decoder on phrase pairs or sentences: loop, optimisers, schedule, checkpoints, metrics."""
