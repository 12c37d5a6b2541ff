set -m
trap 'echo user signal' USR1; trap 'echo the end' EXIT
sleep 100 & sleep 0.2; kill -STOP %1; until jobs -s | grep -q Stopped; do sleep 0.01; done; echo stopped
kill -CONT %1; kill -TERM %1; wait %1; echo $?
kill -USR1 $$; (exit 3) | cat; echo ${PIPESTATUS[@]}
cat <(echo substituted) - <<<here
coproc tr a-z A-Z; echo coprocess >&${COPROC[1]}; exec {COPROC[1]}>&-; cat <&${COPROC[0]}
mkfifo fifo; (echo through >fifo) & cat fifo; wait
exec {both}<>fifo; echo both >&$both; read -u $both -t 1 line; echo $line
read -t 0.05 -u $both line; echo $(($? > 128)); (ulimit -n 50; ulimit -n)
[[ /dev/fd/0 -ef /proc/self/fd/0 ]] && echo the same; bash -c 'kill -KILL $$'; echo $?
exit 9
