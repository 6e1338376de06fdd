"""Tests. Importing the package first lets it set up OpenMP before torch is loaded."""

import phrasescore as phrasescore
