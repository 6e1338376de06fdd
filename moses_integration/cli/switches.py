"""The switches of `phrasescore-decoder`: the most common ones of `moses`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from moses_integration.decoder.pool import Translating
from moses_integration.decoder.settings import MOST, is_on
from moses_integration.ini import MosesIni
from phrasescore.configuration import nearest
from phrasescore.errors import UsageError, UserError
from phrasescore.files import read_lines
from phrasescore.words import parse_number

HELP = """\
usage: phrasescore-decoder -f moses.ini [switches] < sentences > translations

The embedded decoder under Moses' switches (- or --, short and long names as in Moses):

  -f, -config FILE                     moses.ini
  -i, -input-file FILE                 sentences; standard input without it
  -n-best-list FILE SIZE [distinct]    write n-best lists
  -include-segmentation-in-n-best      with source and target ranges
  -print-alignment-info-in-n-best      with word alignment
  -show-weights                        print features and weights, and end
  -weight-overwrite 'A= 1 2 B= 3'      other weights than moses.ini's; x keeps one
  -wf, -weight-file FILE               weights of sparse features; accepted if it has none
  -t, -report-segmentation             source range after each phrase; not with -n-best-list
  -s, -stack N                         hypotheses in a stack (200)
  -b, -beam-threshold X                worst factor to the best of a stack (1e-5)
  -search-algorithm 0|1                0 scores every candidate, 1 is cube pruning
  -cbp, -cube-pruning-pop-limit N      candidates of a stack that are scored (500; 1000 with -search-algorithm 1)
  -dl, -distortion-limit N             longest jump; -1 for any (moses.ini's)
  -max-phrase-length N                 longest source phrase (20)
  -du, -drop-unknown                   leave unknown words out
  -th, -threads N|all                  processes (1)
  -v, -verbose N                       0 prints no messages; accepted
  -inputtype 0                         plain text; accepted
  -h, -help                            print this help
  -version                             print the version
"""
_DECLARED = re.findall(r"(?m)^  (?:-(\w+), )?-([a-z-]+)( \S)?", HELP)
_LONG_NAMES = {name: long for short, long, _ in _DECLARED for name in (short or long, long)}
_NEED_VALUE = {long for _, long, value in _DECLARED if value}


class Switches(dict[str, list[str]]):
    """The values of each given switch, by its long name."""

    @classmethod
    def parse(cls, arguments: Sequence[str], log: Callable[[str], None]) -> Switches:
        """Parse a command line; of a repeated switch the first occurrence counts, as in Moses."""
        switches, values = cls(), None
        for argument in arguments:
            # A value may be a negative number.
            if argument.startswith("-") and len(argument) > 1 and not argument[1].isdecimal():
                name = _LONG_NAMES.get(argument.lstrip("-"))
                if name is None:
                    near = nearest(argument.lstrip("-"), _LONG_NAMES)
                    advice = f"did you mean `-{near}`?" if near else "`phrasescore-decoder -h` lists them"
                    raise UsageError(f"{argument}: is no switch of this decoder; {advice}")
                if name in switches and name in _NEED_VALUE:
                    log(f"{argument}: is given twice; only the first counts, as in Moses")
                values = switches.setdefault(name, []) if name not in switches else []
            elif values is None:
                raise UsageError(f"{argument}: is not a switch; give -f moses.ini first")
            else:
                values.append(argument)
        for name in switches.keys() & _NEED_VALUE:
            switches.one(name)
        return switches

    def one(self, name: str, default: str | None = None) -> str:
        values = self.get(name, [] if default is None else [default])
        if not values:
            raise UsageError(f"-{name}: has no value; `phrasescore-decoder -h` lists the switches")
        return values[0]

    def whole(self, name: str, default: int, least: int = 0) -> int:
        value = self.one(name, str(default))
        if not re.fullmatch("[0-9]{1,10}", value) or int(value) < least:
            raise UsageError(f"-{name}: `{value}` is not a whole number from {least}; give one")
        return int(value)

    def is_on(self, name: str) -> bool:
        try:
            return name in self and is_on(self[name])
        except ValueError as fault:
            raise UsageError(f"-{name}: {fault}; give true or false") from fault

    def task(self) -> Translating:
        listing, trace = self.get("n-best-list", []), self.get("report-segmentation")
        if trace:
            raise UsageError("-report-segmentation: Moses ignores its value; give it none, or leave it out")
        if listing and trace is not None:
            raise UsageError(
                "-report-segmentation: Moses would write the ranges into the n-best list, too; use "
                "-include-segmentation-in-n-best, or leave -n-best-list out"
            )
        # Use as many digits as the largest value has.
        if listing and (len(listing) < 2 or not re.fullmatch("[0-9]{1,10}", listing[1]) or int(listing[1]) > MOST):
            raise UsageError(
                f"-n-best-list: needs a file and a size up to {MOST:,}; give -n-best-list FILE SIZE [distinct]"
            )
        return Translating(
            trace=trace is not None,
            nbest=int(listing[1]) if listing else 0,
            distinct="distinct" in listing[2:],
            segmentation=self.is_on("include-segmentation-in-n-best"),
            alignment=self.is_on("print-alignment-info-in-n-best"),
        )

    def weights(self, ini: MosesIni) -> dict[str, list[float]]:
        """Return the weights of `-weight-overwrite 'A= 1 x B= 3'`; x keeps the ini's weight."""
        before, weights, label = ini.weights_of_features(), dict[str, list[float]](), ""
        for token in " ".join(self.get("weight-overwrite", [])).split():
            if token.endswith("="):
                label = token[:-1]
                weights[label] = []
                continue
            try:
                numbers = weights[label]
                numbers.append(before[label][len(numbers)] if token == "x" else parse_number(token))
            except (ValueError, LookupError) as error:
                raise UserError(
                    f"-weight-overwrite: `{token}` is no weight of `{label}`; give 'Label= number ...'"
                ) from error
        return weights

    def require_no_sparse_weights(self) -> None:
        """Reject a `-weight-file` with weights; comments are allowed (moses/FeatureVector.cpp)."""
        for path in self.get("weight-file", []):
            for row, line in enumerate(read_lines(path), 1):
                if line.strip() and not line.startswith(b"#"):
                    raise UserError(
                        f"{path}: line {row}: is the weight of a sparse feature, which this decoder does not support; "
                        "use Moses, or give dense weights by -weight-overwrite"
                    )
