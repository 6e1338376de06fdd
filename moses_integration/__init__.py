"""Everything that speaks Moses: its files, an embedded toolkit that reads and writes them, and an installed Moses.

It imports phrasescore, never the other way.
"""
