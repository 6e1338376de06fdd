"""`python -m phrasescore` is the command `phrasescore`."""

import sys

from phrasescore.cli import main

sys.exit(main())
