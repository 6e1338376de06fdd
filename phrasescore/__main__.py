"""Run the command `phrasescore` by `python -m phrasescore`."""

import sys

from phrasescore.cli import main

sys.exit(main())
