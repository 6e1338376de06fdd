"""The phrase-pair model of +XBLEU: n-best lists of the training text, training on them, and the estimate of a gain."""

from phrasescore.errors import UserError

try:
    import scipy as _  # noqa: F401
except ImportError as error:
    raise UserError("expected BLEU needs SciPy; pip install scipy") from error
