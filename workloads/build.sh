#!/bin/sh
# Compiles the guest programs of this repository for riscv64 Linux.
#
#   workloads/build.sh OUTDIR [--compiler gcc|zig] [--dynamic]
#                      [--kernels] [--parallel] [--flush] [--strand] [--nearpm] [--check]
#                      [--guests]
#
#   --compiler   gcc: riscv64-linux-gnu-gcc (glibc); zig: the ziglang package of the
#                Python in $PYTHON, default python3 (musl). Without it: gcc if it is
#                there, else zig.
#   --dynamic    link dynamically (gcc only); the default is a static program.
#   --kernels    also the kernels of workloads/kernels, in OUTDIR/kernels.
#   --parallel   also the threaded programs of workloads/parallel, in OUTDIR/parallel.
#   --flush      also the programs of the flush study, in OUTDIR/flush.
#   --strand     also the transactions of the strand study, in OUTDIR/strand.
#   --nearpm     also the programs of the NearPM study, in OUTDIR/nearpm.
#   --check      also the persistent structures with planted bugs, in OUTDIR/check.
#   --guests     also the end-to-end test programs of tests/guests, in OUTDIR/guests.
#                The Go ones need `go`, and are skipped with a notice where it is missing.
#
# Always true: a program is written under a name of its own and renamed, so that OUTDIR
# never holds half a program, even if two builds run at once; what is newer than its
# sources, and was built with the same compiler and flags, is left alone; warnings are errors.
set -eu

fail() {
    echo "build.sh: $*" >&2
    exit 2
}

usage="usage: build.sh OUTDIR [--compiler gcc|zig] [--dynamic] [--kernels] [--parallel] [--flush] \
[--strand] [--nearpm] [--check] [--guests]"
out=""
compiler=""
link=static
kernels=no
parallel=no
flush=no
strand=no
nearpm=no
check=no
guests=no
while [ $# -gt 0 ]; do
    case $1 in
    --compiler)
        [ $# -ge 2 ] || fail "--compiler needs a value: gcc or zig"
        compiler=$2
        shift
        ;;
    --dynamic) link=dynamic ;;
    --kernels) kernels=yes ;;
    --parallel) parallel=yes ;;
    --flush) flush=yes ;;
    --strand) strand=yes ;;
    --nearpm) nearpm=yes ;;
    --check) check=yes ;;
    --guests) guests=yes ;;
    -h | --help)
        echo "$usage"
        exit 0
        ;;
    -*) fail "unknown option $1; $usage" ;;
    *)
        [ -z "$out" ] || fail "one OUTDIR only, but got $out and $1; $usage"
        out=$1
        ;;
    esac
    shift
done
[ -n "$out" ] || fail "$usage"

here=$(cd "$(dirname "$0")" && pwd)
repository=$(dirname "$here")
python=${PYTHON:-python3}

has_gcc() { command -v riscv64-linux-gnu-gcc >/dev/null 2>&1; }
has_zig() { "$python" -c 'import ziglang' >/dev/null 2>&1; }

if [ -z "$compiler" ]; then
    if has_gcc; then
        compiler=gcc
    elif has_zig; then
        compiler=zig
    else
        fail "no compiler for riscv64 found. Install Debian's gcc-riscv64-linux-gnu" \
            "(and g++-riscv64-linux-gnu), or ziglang from PyPI: $python -m pip install ziglang"
    fi
fi
case $compiler in
gcc)
    has_gcc || fail "riscv64-linux-gnu-gcc is not on the PATH; install gcc-riscv64-linux-gnu"
    cc() { riscv64-linux-gnu-gcc -march=rv64gc "$@"; }
    cxx() { riscv64-linux-gnu-g++ -march=rv64gc "$@"; }
    ;;
zig)
    has_zig || fail "$python has no module ziglang; install it: $python -m pip install ziglang"
    [ "$link" = static ] || fail "--dynamic needs --compiler gcc"
    cc() { "$python" -m ziglang cc -target riscv64-linux-musl "$@"; }
    cxx() { "$python" -m ziglang c++ -target riscv64-linux-musl "$@"; }
    ;;
*) fail "--compiler is \"$compiler\", but must be gcc or zig" ;;
esac

flags="-O2 -g -pthread -Wall -Wextra -Wpedantic -Werror"
[ "$link" = dynamic ] || flags="$flags -static"

# compile COMPILER ARGUMENT...: with the flags of every program. The prefix map keeps the
# repository's place on this machine out of the programs.
compile() {
    compile_with=$1
    shift
    # shellcheck disable=SC2086  # the flags are a list of words
    "$compile_with" $flags "-I$repository/guest" "-ffile-prefix-map=$repository=." "$@"
}

mkdir -p "$out"
trap 'find "$out" -name "*.$$" -exec rm -f {} +' EXIT
stamp="$out/.built-with"
built_with="$compiler $flags"
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$built_with" ]; then
    rm -f "$stamp"
    rebuild=yes
else
    rebuild=no
fi

# can_build SOURCE: says so if the compiler of its language is missing.
can_build() {
    case $compiler$1 in
    gcc*.cpp) needs=riscv64-linux-gnu-g++ ;;
    *.go) needs=go ;;
    *) return 0 ;;
    esac
    command -v "$needs" >/dev/null 2>&1 && return
    echo "build.sh: skipped $(basename "$1"): $needs is not installed" >&2
    return 1
}

# build SOURCE PROGRAM FLAG...: compiles one source file, unless the program is up to date.
build() {
    source=$1
    program=$2
    shift 2
    if [ $rebuild = no ] && [ -f "$program" ] &&
        [ -z "$(find "$source" "$(dirname "$source")" "$here/flush/flush.h" "$repository/guest" \
            "$here/build.sh" -type f -newer "$program" \
            \( -name '*.h' -o -path "$source" -o -name build.sh \))" ]; then
        return
    fi
    echo "  $(basename "$program")"
    mkdir -p "$(dirname "$program")"
    case $source in
    *.c) compile cc -std=c11 -D_GNU_SOURCE "$@" -o "$program.$$" "$source" -lm ;;
    *.cpp) compile cxx -std=c++17 "$@" -o "$program.$$" "$source" ;;
    *.go)
        CGO_ENABLED=0 GOOS=linux GOARCH=riscv64 \
            go build -trimpath -o "$program.$$" "$source"
        ;;
    esac
    mv "$program.$$" "$program"
}

for source in "$here"/bench/*.c "$here"/kv/*.c; do
    build "$source" "$out/$(basename "$source" .c)"
done

if [ $kernels = yes ]; then
    for source in "$here"/kernels/*.c; do
        # A contracted multiply-add rounds once instead of twice: another result.
        build "$source" "$out/kernels/$(basename "$source" .c)" -ffp-contract=off
    done
fi

if [ $parallel = yes ]; then
    for source in "$here"/parallel/*.c "$here"/parallel/*.cpp; do
        can_build "$source" || continue
        name=$(basename "$source")
        build "$source" "$out/parallel/${name%.*}" -ffp-contract=off
    done
fi

if [ $flush = yes ]; then
    for source in "$here"/flush/*.c; do
        build "$source" "$out/flush/$(basename "$source" .c)"
    done
fi

if [ $strand = yes ]; then
    for source in "$here"/strand/*.c; do
        build "$source" "$out/strand/$(basename "$source" .c)"
    done
fi

if [ $nearpm = yes ]; then
    for source in "$here"/nearpm/*.c; do
        build "$source" "$out/nearpm/$(basename "$source" .c)"
    done
fi

if [ $check = yes ]; then
    for source in "$here"/check/*.c "$here"/check/*.cpp; do
        can_build "$source" || continue
        name=$(basename "$source")
        build "$source" "$out/check/${name%.*}"
    done
fi

if [ $guests = yes ]; then
    for source in "$repository"/tests/guests/*.c "$repository"/tests/guests/*.cpp \
        "$repository"/tests/guests/*.go; do
        [ -f "$source" ] || continue
        name=$(basename "$source")
        can_build "$source" || continue
        build "$source" "$out/guests/${name%.*}"
    done
fi
echo "$built_with" >"$stamp"
