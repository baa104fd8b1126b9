#!/usr/bin/env bash
# Submits a sweep to Slurm: an array of so many shards, and a job behind it that joins them.
#
#     docs/cluster/slurm-submit.sh scenarios/golden-sweep.json 16 run.db --vary cluster=8xa100-hgx,8xh100-hgx
#
# Options of sbatch for both jobs go into SBATCH_OPTIONS: SBATCH_OPTIONS='--partition=cpu --account=me'. Folder and
# program must be reachable from every node.
# AURUM names the program where `aurum` is not on the path: AURUM=build/release/aurum before the command. sbatch
# hands it on to the jobs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

scenario=${1:?usage: slurm-submit.sh SCENARIO SHARDS OUT.db [OPTION of aurum sweep...]}
export SHARDS=${2:?how many shards}
out=${3:?the database to write}
shift 3
read -ra options <<<"${SBATCH_OPTIONS:-}"

# What is wrong with the sweep is better said now than in a thousand logs.
# 6: some points of a list will fail; they are results too, and the others go on.
"${AURUM:-aurum}" sweep "$scenario" "$@" --dry-run || { code=$?; [[ $code == 6 ]] || exit "$code"; }

# Shards of another number are other parts of the sweep: not continued, but mixed up with these.
before=$(cat "$out.parts/shards" 2>/dev/null || true)
if [[ -n $before && $before != "$SHARDS" ]]; then
  echo "error: '$out.parts' holds shards of a run with $before shards, not $SHARDS" >&2
  echo "help: go on with $before; or aurum merge --partial '$out.parts'/shard-*.db -o '$out', and aurum sweep with -o '$out' does the rest; or remove '$out.parts'" >&2
  exit 2
fi
mkdir -p "$out.parts"
echo "$SHARDS" >"$out.parts/shards"

array=$(sbatch --parsable "${options[@]}" --array="1-$SHARDS" "$here/slurm-array.sh" "$scenario" "$out.parts" "$@")
# afterany, not afterok: a sweep in which points failed exits with 6, and is complete all the same. The merge looks for
# itself whether all points are there.
merge=$(sbatch --parsable "${options[@]}" --dependency="afterany:${array%%;*}" "$here/slurm-merge.sh" "$out.parts" "$out")
echo "shards: job $array; merge into $out: job $merge" >&2
