#!/usr/bin/env bash
# A sweep with GNU parallel: one process a shard, so many at a time, then the merge. The same command again does only
# what is missing.
#
#     docs/cluster/parallel-sweep.sh scenarios/golden-sweep.json 16 run.db --vary cluster=8xa100-hgx,8xh100-hgx
#
# On other machines as well, which share this folder: PARALLEL='--sshloginfile nodes --workdir .' before the command.
# A machine that goes away costs a retry of its shard, which then goes on where it was.
set -euo pipefail

scenario=${1:?usage: parallel-sweep.sh SCENARIO SHARDS OUT.db [OPTION of aurum sweep...]}
shards=${2:?how many shards}
out=${3:?the database to write}
shift 3
aurum=${AURUM:-aurum}

"$aurum" sweep "$scenario" "$@" --dry-run
mkdir -p "$out.parts"
# parallel's exit code is the number of shards that did not end with 0, also those in which some points failed (6). The
# merge looks for itself whether all points are there. A usage or input error (2, 3) is not retried: it would come again.
seq "$shards" | parallel --quote --retries 2 --joblog "$out.parts/log" \
  "$aurum" sweep "$scenario" "$@" --shard "{}/$shards" --jobs 1 --quiet -o "$out.parts/shard-{}.db" || true
exec "$aurum" merge "$out".parts/shard-*.db -o "$out"
