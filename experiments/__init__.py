"""What the numbers in the README come from, one command each.

Importing the package first lets it set up OpenMP before torch is loaded.
"""

import phrasescore as phrasescore
