#!/usr/bin/env bash
# A sweep with GNU parallel: one process a shard, so many at a time, then the merge. The same command again does only
# what is missing.
#
#     docs/cluster/parallel-sweep.sh scenarios/golden-sweep.json 16 run.db --vary cluster=8xa100-hgx,8xh100-hgx
#
# On other machines as well, which share this folder: PARALLEL='--sshloginfile nodes --workdir .' before the command.
# A machine that goes away costs a retry of its shard, which then goes on where it was.
# AURUM names the program where `aurum` is not on the path: AURUM=build/release/aurum before the command.
set -euo pipefail

scenario=${1:?usage: parallel-sweep.sh SCENARIO SHARDS OUT.db [OPTION of aurum sweep...]}
shards=${2:?how many shards}
out=${3:?the database to write}
shift 3
aurum=${AURUM:-aurum}

# 6: some points of a list will fail; they are results too, and the others go on.
"$aurum" sweep "$scenario" "$@" --dry-run || { code=$?; [[ $code == 6 ]] || exit "$code"; }
mkdir -p "$out.parts"
# Shards of another number are other parts of the sweep: not continued, but mixed up with these.
before=$(cat "$out.parts/shards" 2>/dev/null || true)
if [[ -n $before && $before != "$shards" ]]; then
  echo "error: '$out.parts' holds shards of a run with $before shards, not $shards" >&2
  echo "help: go on with $before; or aurum merge --partial '$out.parts'/shard-*.db -o '$out', and aurum sweep with -o '$out' does the rest; or remove '$out.parts'" >&2
  exit 2
fi
echo "$shards" >"$out.parts/shards"
# parallel's exit code is the number of shards that did not end with 0, also those in which some points failed (6). The
# merge looks for itself whether all points are there. A usage or input error (2, 3) is not retried: it would come again.
seq "$shards" | parallel --quote --retries 2 --joblog "$out.parts/log" \
  "$aurum" sweep "$scenario" "$@" --shard "{}/$shards" --jobs 1 --quiet -o "$out.parts/shard-{}.db" || true
exec "$aurum" merge "$out".parts/shard-*.db -o "$out"
