#!/usr/bin/env bash
# One shard of a sweep, as one task of a Slurm job array. slurm-submit.sh submits it, and the merge behind it; by hand:
#
#     SHARDS=16 sbatch --array=1-16 docs/cluster/slurm-array.sh scenarios/golden-sweep.json parts
#     SHARDS=16 sbatch --array=3    docs/cluster/slurm-array.sh scenarios/golden-sweep.json parts    # shard 3 again
#
# SHARDS is the number of shards of the whole sweep. It is told and not taken from SLURM_ARRAY_TASK_COUNT, which is 1
# in the second line: that would be shard 1 of 1.
#
# A task that is preempted, requeued or runs out of time loses nothing that it has stored, and goes on where it was when
# it is started again.
#
# AURUM names the program where `aurum` is not on the path: AURUM=build/release/aurum before the command.
#SBATCH --job-name=aurum-sweep
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=1G
#SBATCH --time=01:00:00
#SBATCH --requeue
set -euo pipefail

scenario=${1:?usage: SHARDS=N sbatch --array=1-N slurm-array.sh SCENARIO FOLDER [OPTION of aurum sweep...]}
folder=${2:?the folder that the shards go to}
shift 2

mkdir -p "$folder"
before=$(cat "$folder/shards" 2>/dev/null || true)
if [[ -n $before && $before != "${SHARDS:?the number of shards}" ]]; then
  echo "error: '$folder' holds shards of a run with $before shards, not $SHARDS" >&2
  echo "help: SHARDS=$before, or another folder" >&2
  exit 2
fi
echo "$SHARDS" >"$folder/shards"
# exec: so that Slurm's signals reach the sweep itself.
exec "${AURUM:-aurum}" sweep "$scenario" "$@" \
  --shard "${SLURM_ARRAY_TASK_ID:?not a task of an array: sbatch --array=1-N}/${SHARDS:?the number of shards}" \
  --jobs "${SLURM_CPUS_PER_TASK:-1}" -o "$folder/shard-$SLURM_ARRAY_TASK_ID.db"
