#!/bin/sh
# Classify real, recorded agent runs and show what can be asked afterwards. Takes the offramp command to use, as it is
# called from the top of the clone.
set -eu
offramp=${1:-offramp}
cd "$(dirname "$0")/.."
work=build/demo
rm -rf "$work" && mkdir -p "$work"
export COLUMNS="${COLUMNS:-80}"

bold='' plain=''
if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); fi
say() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }

say "1. Import recorded runs of agent harnesses and model providers"
# Ends with 1, because one of these files is a log without runs; stderr names it, and the others are imported.
"$offramp" import auto tests/data >"$work/runs.jsonl" 2>"$work/import.txt" || true
tail -n 2 "$work/import.txt" | head -n 1
echo "(each folder of tests/data names its source and licence)"

say "2. Classify them, and keep evidence and exits"
"$offramp" classify "$work/runs.jsonl" --store "$work/store" 2>"$work/classify.txt" || {
  cat "$work/classify.txt" >&2
  exit 1
}
grep '^ledger' "$work/classify.txt"

say "3. Ask: what does each source's evidence suffice for?"
"$offramp" query --store "$work/store" "
  SELECT replaceAll(extensions['import.source'], '\"', '') AS source, count() AS runs,
    countIf(kind = 'completed') AS completed, countIf(kind = 'refusal') AS refused,
    countIf(kind = 'human_queue') AS for_people
  FROM v_events JOIN v_exits USING (tenant, event_id) GROUP BY source ORDER BY runs DESC, source"

say "4. Understand one run: it said it was done, its write is confirmed, its answer is wrong"
"$offramp" explain --store "$work/store" 7a278044-2246-5689-965d-20859517a37d >"$work/explained.txt"
sed '/^Earlier rows/,$d' "$work/explained.txt"
echo "(and $(sed '1,/^Earlier rows/d' "$work/explained.txt" | wc -l) lines more in $work/explained.txt)"

say "5. Close the ledger: nothing lost, nothing doubled"
"$offramp" audit --store "$work/store"

say "Where to look next"
cat <<END
  $offramp query --store $work/store --schema
      what else can be asked
  $offramp validate $work/runs.jsonl
      which missing fields would have earned better exits
  docs/tutorial/first-classification.md
      the same, step by step
  docs/explanation/real-runs.md
      what the numbers say
END
