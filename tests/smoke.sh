#!/bin/sh
# Whether installed commands work where nothing else of the project is: sh tests/smoke.sh FOLDER-OF-PROGRAMS
set -eu
programs=$(cd "$1" && pwd)
mini=$(cd "$(dirname "$0")/data/mini" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Elsewhere, so that the packages of the working tree are not found.
cd "$folder"
"$programs/phrasescore" train "$mini/phrase-table.gz" -o rnn --hidden 16 --set model.embedding=8 --max-updates 20 --quiet
"$programs/phrasescore" annotate "$mini/phrase-table.gz" -m rnn -o table.gz --quiet
"$programs/phrasescore" check table.gz --num-features 5 > checked
"$programs/phrasescore-smt" add-column "$mini/moses.tuned.ini" --table table.gz -o moses.ini
head -n 3 "$mini/dev.en" | "$programs/phrasescore-smt" decode moses.ini --prepared --toolkit embedded --quiet > translated
test "$(wc -l < translated)" -eq 3
"$programs/python" -c 'import phrasescore; print(phrasescore.score([("the black dogs", "les chiens noirs")], "rnn"))'
echo "the commands of $programs work"
