"""The test suite. Importing the package before torch configures OpenMP."""

import phrasescore as phrasescore
