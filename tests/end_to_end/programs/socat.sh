until_connected() { for i in $(seq 300); do "$@" 2>/dev/null && return; sleep 0.02; done; }
socat -u TCP-LISTEN:19001,bind=127.0.0.1,reuseaddr OPEN:got,creat &
seq 1 2000 | until_connected socat -u - TCP:127.0.0.1:19001; wait; md5sum <got
socat TCP-LISTEN:19002,fork,reuseaddr EXEC:'tr a-z A-Z' & server=$!
until echo message 0 | socat -t2 - TCP:localhost:19002 2>/dev/null; do sleep 0.02; done
for i in 1 2 3; do echo message $i | socat -t2 - TCP:localhost:19002; done; kill $server
wait 2>/dev/null
socat UNIX-LISTEN:name,fork SYSTEM:'read x; echo got $x' & server=$!
until [ -S name ]; do sleep 0.01; done
echo unix | socat -t2 - UNIX-CONNECT:name; kill $server; wait 2>/dev/null
socat -u UDP-RECV:19003 OPEN:datagram,creat & server=$!
until [ -s datagram ]; do echo datagram | socat -u - UDP-SENDTO:127.0.0.1:19003; sleep 0.05; done
kill $server; head -n 1 datagram
socat -t1 - EXEC:'echo on a terminal',pty,raw,echo=0 </dev/null
socat TCP6-LISTEN:19010,bind=[::1] SYSTEM:'echo version six' & sleep 0.3
socat -t2 - TCP6:[::1]:19010 </dev/null; wait 2>/dev/null
socat - TCP:127.0.0.1:19999 2>/dev/null; echo $?
