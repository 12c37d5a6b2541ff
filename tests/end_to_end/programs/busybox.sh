busybox sh -c '
for i in 1 2 3; do echo $i; done | busybox sort -r; busybox seq 3 | busybox awk "{ s += \$1 } END { print s }"
busybox printf "%05d\n" 42; busybox uname -sm; busybox timeout 1 busybox sleep 0.01; echo $?
busybox mkfifo fifo; (echo through >fifo) & busybox cat fifo; busybox dc -e "2 3 + p"; echo page >index.html
busybox httpd -f -p 127.0.0.1:48080 -h . & until busybox wget -q -O - http://127.0.0.1:48080/ 2>/dev/null; do busybox usleep 1000; done
kill $!; busybox find . -name "*.html" -exec busybox md5sum {} \;; busybox tar cf a.tar fifo index.html; busybox tar tf a.tar
busybox setsid busybox echo own session; busybox false' 2>&1
