flock lock -c 'echo locked'; (flock -n 9; flock -n lock true; echo $?) 9>lock
flock -s 8 8<lock && echo shared
(flock 9; sleep 0.2) 9>lock & sleep 0.05; flock -w 0.01 lock true; echo $?
flock -w 5 lock echo at last
prlimit --nofile=100:200 bash -c 'ulimit -Sn; ulimit -Hn'; setsid -w bash -c 'exit 5'; echo $?
mountpoint -q /; echo $?
script -qec 'echo in; tty >/dev/null && echo a terminal; stty size' log </dev/null; grep -c in log
getopt -o ab: -l long -- -a -b 3 --long x; taskset -c 0 echo pinned; hexdump -C <<<hello
fallocate -l 8192 file; stat -c %s file
sleep 5 & waitpid -e -t 0.05 $!; echo $?; kill $!; waitpid -e $!; renice -n 3 $$ >/dev/null; nice

