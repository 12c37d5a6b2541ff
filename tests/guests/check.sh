#!/bin/sh
# Runs the cases of cases.txt and compares output and exit status with what is expected.
#
#   tests/guests/check.sh [--skip PATTERN] [--only PATTERN] [--record] BUILD [RUNNER...]
#
#   BUILD      where workloads/build.sh --guests put the programs
#   RUNNER     the command before the program; default: qemu-riscv64, which leaves out the
#              cases exec*, as it cannot start programs of the machine that it emulates,
#              asynchronous*, whose system calls it does not have, and primitives and
#              memory-types, whose instructions it does not have
#   --skip     leave out the cases whose name matches the shell pattern (may be repeated);
#              qemu-user 7.2 needs --skip 'zicbom*'
#   --only     only the cases whose name matches
#   --record   write the expected outputs instead of comparing; for the reference alone
#
# Always true: a program that was not built is a failure, not a skip, and the number of
# cases run is printed. Exit status: 0 all as expected, 1 some not, 2 wrong usage.
set -u

fail() {
    echo "check.sh: $*" >&2
    exit 2
}

here=$(cd "$(dirname "$0")" && pwd)
skip=""
only="*"
record=no
while [ $# -gt 0 ]; do
    case $1 in
    --skip)
        [ $# -ge 2 ] || fail "--skip needs a pattern"
        skip="$skip $2"
        shift
        ;;
    --only)
        [ $# -ge 2 ] || fail "--only needs a pattern"
        only=$2
        shift
        ;;
    --record) record=yes ;;
    -*) fail "unknown option $1" ;;
    *) break ;;
    esac
    shift
done
usage="usage: check.sh [--skip PATTERN] [--only PATTERN] [--record] BUILD [RUNNER...]"
[ $# -ge 1 ] || fail "$usage"
build=$(cd "$1" && pwd) || fail "no directory $1"
shift
if [ $# -eq 0 ]; then
    set -- qemu-riscv64
    skip="$skip exec* asynchronous* keeps* primitives memory-types"
fi
command -v "$1" >/dev/null || fail "no command $1"
# What is asked is whether a machine of the host's own time gives the expected answer: where two
# calls stand more than three milliseconds apart as the host was busy, a timer that should not have
# expired has, which Linux answers too; and qemu-user hangs now and then where processes send each
# other signals. A runner with a time of its own has one attempt.
case $1 in
*qemu-riscv64) attempts="once twice thrice" ;;
*) attempts=only ;;
esac

set -f # the patterns are matched against names of cases, not of files
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# matches NAME PATTERN...
matches() {
    name=$1
    shift
    for pattern in "$@"; do
        # shellcheck disable=SC2254  # it is a pattern
        case $name in $pattern) return 0 ;; esac
    done
    return 1
}

# run NAME COMMAND...: its exit status, or 128 and the signal's number; 124 after a minute.
run() {
    case_name=$1
    shift
    rm -rf "${scratch:?}/$case_name"
    mkdir "$scratch/$case_name"
    # The inner shell turns a death by signal into 128 + its number, and keeps its message.
    (cd "$scratch/$case_name" && sh -c 'timeout 60 "$@"; exit $?' sh "$@") \
        >"$scratch/$case_name.out" 2>"$scratch/$case_name.err" </dev/null
}

cases_run=0
cases_failed=0
while read -r name status program arguments; do
    case $name in '' | '#'*) continue ;; esac
    # shellcheck disable=SC2086  # a list of patterns
    if ! matches "$name" "$only" || matches "$name" $skip; then
        continue
    fi
    cases_run=$((cases_run + 1))
    expected="$here/expected/$name.txt"
    for attempt in $attempts; do
        # shellcheck disable=SC2086  # the arguments are a list of words
        run "$name" "$@" "$build/$program" $arguments
        got=$?
        if [ "$got" -eq "$status" ]; then
            [ $record = no ] || break
            cmp -s "$expected" "$scratch/$name.out" && break
        fi
        [ "$attempt" = only ] || echo "  $name: not as expected, $attempt"
    done
    if [ "$got" -ne "$status" ]; then
        echo "FAILED $name: exit status $got, expected $status"
        tail -n 5 "$scratch/$name.err" | sed 's/^/    /'
        cases_failed=$((cases_failed + 1))
    elif [ $record = yes ]; then
        mkdir -p "$here/expected"
        cp "$scratch/$name.out" "$expected"
    elif ! diff -u "$expected" "$scratch/$name.out" >"$scratch/$name.diff"; then
        echo "FAILED $name: output differs (- expected, + got)"
        head -n 20 "$scratch/$name.diff" | sed 's/^/    /'
        cases_failed=$((cases_failed + 1))
    fi
    rm -rf "${scratch:?}/$name"
done <"$here/cases.txt"

[ $cases_run -gt 0 ] || fail "no case matches"
echo "$cases_run cases, $cases_failed failed"
[ $cases_failed -eq 0 ]
