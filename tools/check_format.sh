#!/usr/bin/env bash
# Fails when a C++ file differs from what `./build.sh fmt` makes of it. With --fix it changes the files.
set -euo pipefail
cd "$(dirname "$0")/.."

# "\n" in names would break this list; no name of ours has one.
mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh' | grep -v '^tests/data/' | sort)
existing=()
for file in "${files[@]}"; do
    [[ -f $file ]] && existing+=("$file")
done
if [[ ${#existing[@]} == 0 ]]; then
    echo "format: no files"
    exit 0
fi
if [[ ${1:-} == --fix ]]; then
    clang-format-14 -i "${existing[@]}"
    echo "format: ${#existing[@]} files done"
    exit 0
fi
faults=0
for file in "${existing[@]}"; do
    if ! clang-format-14 "$file" | cmp -s - "$file"; then
        echo "$file: not formatted, run ./build.sh fmt"
        faults=$((faults + 1))
    fi
done
echo "format: $faults faults"
[[ $faults == 0 ]]
