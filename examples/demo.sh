#!/bin/sh
# Classify real, recorded agent runs and show what can be asked afterwards. Takes the offramp command to use.
set -eu
offramp=${1:-offramp}
here=$(dirname "$0")
work=$here/../build/demo
mkdir -p "$work"

say() { printf '\n\033[1m%s\033[0m\n' "$1"; }

say "1. Import recorded runs of ten agent harnesses and providers (tests/data names each file's source and licence)"
"$offramp" import auto "$here"/../tests/data >"$work/runs.jsonl" 2>"$work/import-errors.txt" || true
echo "$(wc -l <"$work/runs.jsonl") records in $work/runs.jsonl; what could not be read is in $work/import-errors.txt"

say "2. Classify them"
"$offramp" classify "$work/runs.jsonl" --store "$work/store"

say "3. What the numbers point to: exits by harness"
"$offramp" query --store "$work/store" "
  SELECT agent_id, kind, count() AS runs, topK(1)(reason_code)[1] AS most_often
  FROM v_exits GROUP BY agent_id, kind ORDER BY runs DESC LIMIT 15"

say "4. One run in full: the first that a person must look at"
event=$("$offramp" query --store "$work/store" --format csv "
  SELECT event_id FROM v_exits WHERE kind = 'human_queue' AND notEmpty(obligations)
  ORDER BY occurred_at DESC, event_id LIMIT 1" | tail -n 1 | tr -d '"')
"$offramp" explain --store "$work/store" "$event" | head -n 40

say "Where to look next"
cat <<END
  $offramp explain --store $work/store EVENT_ID     any other run
  $offramp validate $work/runs.jsonl     which missing fields would have earned better exits
  $offramp query --store $work/store --schema     what else can be asked
  $offramp audit --store $work/store     that nothing was lost
  docs/tutorial/first-classification.md     the same, step by step
END
