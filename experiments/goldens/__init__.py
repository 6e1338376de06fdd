"""How near the embedded decoder, builder and tuner come to what a real Moses wrote."""
