#!/usr/bin/env bash
# A sweep with MPI, as a Slurm job or on machines of a host file: one process a node, which uses all of its cores. Rank 0
# writes the database; it is the one that a single process writes.
#
#     sbatch --nodes=8 docs/cluster/mpi-sweep.sh scenarios/golden-sweep.json run.db
#     MPIRUN_OPTIONS='--hostfile nodes' docs/cluster/mpi-sweep.sh scenarios/golden-sweep.json run.db
#
# --enable-recovery: Open MPI goes on where a process dies; its points are done again. Without it the whole job ends,
# and the same command goes on from what was stored. But with it mpirun 4.1 returns 0 whatever became of its processes,
# rank 0 too. So the last word has the same sweep without MPI: it finds all points there, or does those that are
# missing here, and its exit code is the sweep's.
#
# AURUM names the program where `aurum` is not on the path: AURUM=build/release/aurum before the command.
#SBATCH --job-name=aurum-sweep
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=01:00:00
set -euo pipefail

scenario=${1:?usage: mpi-sweep.sh SCENARIO OUT.db [OPTION of aurum sweep...]}
out=${2:?the database to write}
shift 2
read -ra options <<<"${MPIRUN_OPTIONS:---map-by ppr:1:node}"

mpirun --enable-recovery --bind-to none "${options[@]}" "${AURUM:-aurum}" sweep "$scenario" "$@" -o "$out"
exec "${AURUM:-aurum}" sweep "$scenario" "$@" -o "$out" --mpi off
