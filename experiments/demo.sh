#!/bin/sh
# The main job on the mini corpus: train a network on its phrase table, annotate the table, check the result.
# `make demo` runs this with the project's environment first on the PATH.
set -eu
cd "$(dirname "$0")/.."
table=tests/data/mini/phrase-table.gz
mkdir -p demo

echo "== 1. Train on $table (a run that was stopped goes on) =="
phrasescore train "$table" -o demo/rnn --max-minutes 1 --epochs 60 --hidden 128 --embedding 64 --maxout 64 \
    --output-rank 64 --batch-size 128 --evaluate-every 300 --learning-rate 5e-3

echo
echo "== 2. Append the score to every line =="
phrasescore annotate "$table" -m demo/rnn -o demo/phrase-table.rnn.gz --report demo/report.json

echo
echo "== 3. Check the new table =="
phrasescore check demo/phrase-table.rnn.gz --num-features 5

echo
echo "== 4. Score pairs of your own: ln p(target | source) =="
for target in "les chiens noirs" "le chien noir" "noirs chiens les"; do
    printf 'the black dogs\t%s\n' "$target"
done | tee demo/pairs.tsv | phrasescore score -m demo/rnn | paste demo/pairs.tsv -

echo
echo "The network is in demo/rnn, the table in demo/phrase-table.rnn.gz, its provenance in demo/report.json."
