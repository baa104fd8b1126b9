#!/usr/bin/env bash
# Calibrates a GPU, runs three plans on it and compares each with its prediction:
#
#   calibrate/on-gpu.sh FOLDER [AURUM-GPU]
#
# For a machine with nothing but a driver and NVIDIA's libraries, be it inside of a Python installation of PyTorch. Takes
# under six minutes; every part has its time limit, and one that fails does not stop the others. At most eight files come
# to lie in FOLDER, summary.txt among them: the exit code and time of every part, and what it last said.
set -u
[[ $# -ge 1 ]] || { echo "usage: calibrate/on-gpu.sh FOLDER [AURUM-GPU]" >&2; exit 2; }
out=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=${2:-$root/build/release/aurum-gpu}
export AURUM_DATA=${AURUM_DATA:-$root}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
cd "$root" || exit 2
summary=$out/summary.txt
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
begin=$SECONDS
failed=0

# Folders of Python that hold NVIDIA's libraries; asked of the interpreter alone, PyTorch is not loaded.
libraries=$(timeout 20 python3 - 2>/dev/null <<'PY'
import glob, site, sys
roots = list(dict.fromkeys([*site.getsitepackages(), site.getusersitepackages(), *sys.path]))
found = [f for r in roots if r for f in sorted(glob.glob(r + "/nvidia/*/lib") + glob.glob(r + "/torch/lib"))]
print(":".join(dict.fromkeys(found)))
PY
)
export AURUM_CUDA_LIBS=${AURUM_CUDA_LIBS:+$AURUM_CUDA_LIBS:}$libraries
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libraries

{
  date -u
  echo "libraries: ${AURUM_CUDA_LIBS:-only those of the system}"
  timeout 20 nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.limit,power.draw,temperature.gpu \
    --format=csv 2>&1
} >"$summary"

# part NAME SECONDS COMMAND...: runs it within its time, what it says goes to the scratch folder.
part() {
  local name=$1 limit=$2 start=$SECONDS code=0
  shift 2
  timeout --kill-after=10 "$limit" "$@" >"$scratch/$name" 2>&1 || code=$?
  {
    echo
    echo "== $name: exit code $code, $((SECONDS - start)) s (limit $limit): ${*##*/}"
    tail -n 40 "$scratch/$name" | cut -c1-400
  } >>"$summary"
  [[ $code -eq 0 ]] || failed=$((failed + 1))
  return "$code"
}

scenarios=(loop-h200-llava-layers loop-h200-qwen-qlora loop-h200-gpt-block)
files=()
for name in "${scenarios[@]}"; do files+=(--for "scenarios/$name.json"); done
calibrate=("$program" calibrate --backend cuda "${files[@]}" -o "$out/profile.json" --measurements "$out/measurements.json")

part version 30 "$program" --version
if ! part calibrate 170 "${calibrate[@]}" --budget 100 && [[ ! -s $out/profile.json ]]; then
  rm -f "$out/measurements.json"
  # An error of the device ends a process for good; attention by cuDNN is the part that is least our own.
  AURUM_NO_CUDNN=1 part calibrate-without-cudnn 80 "${calibrate[@]}" --budget 40 && export AURUM_NO_CUDNN=1
fi
for name in "${scenarios[@]}"; do
  if [[ -s $out/profile.json ]]; then
    if part "execute-$name" 35 "$program" execute "scenarios/$name.json" --backend cuda --rank 0 \
      --profile "$out/profile.json" -o "$out/$name.run.json"; then
      part "validate-$name" 15 "$program" validate "scenarios/$name.json" --measured "$out/$name.run.json" \
        --profile "$out/profile.json" --json
    fi
  else
    echo "== execute-$name: left out, there is no profile" >>"$summary"
  fi
done
{
  echo
  echo "failed parts: $failed, in all $((SECONDS - begin)) s"
} >>"$summary"
# What is too large to be brought home is compressed.
for file in "$out"/*.json; do
  [[ -f $file ]] && [[ $(stat -c %s "$file") -gt $((15 << 20)) ]] && gzip -f "$file"
done
cat "$summary"
[[ $failed -eq 0 ]]
