timeout 0.05 sleep 5; echo $?; timeout -s KILL 0.05 sleep 4; echo $?
timeout --preserve-status 0.05 sleep 4; echo $?
seq 4000 | sort --parallel=2 --random-sort --random-source=<(yes) -S 1M | sort --parallel=2 -n -S 30K | md5sum
seq 3000 | tee first >(wc -l >second) | tail -n 1; until [ -s second ]; do sleep 0.01; done
cat second
nice -n 5 nice; nice -n 5 nice -n 3 nice; stdbuf -oL tr a b <<<a; split -n l/3 first part
wc -l part*
tail -f --pid=$$ -n +1 grows >seen 2>/dev/null & echo one >grows; tail -F -n 1 grows & sleep 0.1
echo two >>grows; mv grows old; echo three >grows; sleep 1.2; kill %2; wait %2 2>/dev/null
dd if=first of=second bs=1K conv=sparse,fsync status=none
cmp first second && stat -c '%s %F %a' second
env -i A=1 env; factor 123456789012345; od -An -tx1 -N8 first; cut -c1-2 first | uniq -c | tail -n 2
touch -d @99 t; date -ur t +%s
shred -n1 -u t; ls t 2>/dev/null; echo $?; mkdir -p a/b; cp -a --reflink=auto a c; rm -r a
realpath --relative-to=. c/../c/b; tac part* | head -n 2
