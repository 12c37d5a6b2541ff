nc -l 127.0.0.1 19004 >got & sleep 0.3; seq 100 | nc -N 127.0.0.1 19004; wait; md5sum <got
nc -z 127.0.0.1 19999; echo $?
nc -lU name >got & until [ -S name ]; do sleep 0.01; done; echo unix | nc -NU name; wait; cat got
nc -u -l 127.0.0.1 19005 -W 1 & sleep 0.3; echo datagram | nc -u -w 1 127.0.0.1 19005; wait
