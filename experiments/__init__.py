"""Experiments behind the figures of the README, one command each.

Import `phrasescore` first, because it configures OpenMP before torch is loaded.
"""

import phrasescore as phrasescore
