#!/usr/bin/env bash
# Joins the shards in a folder: a job that waits for the array of slurm-array.sh. Where a shard is missing or not
# complete it says which, exits with 6 and writes nothing.
# AURUM names the program where `aurum` is not on the path: AURUM=build/release/aurum before the command.
#SBATCH --job-name=aurum-merge
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=00:30:00
set -euo pipefail

folder=${1:?usage: sbatch slurm-merge.sh FOLDER OUT.db}
out=${2:?the database to write}

exec "${AURUM:-aurum}" merge "$folder"/shard-*.db -o "$out"
