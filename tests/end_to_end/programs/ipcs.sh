segment=$(ipcmk -M 4096 -p 600 | grep -o '[0-9]*$')
ipcs -m -i $segment | grep bytes= | cut -f 1,2,4
ipcmk -Q >/dev/null; ipcmk -S 3 >/dev/null; ipcs -q | grep -c 644
ipcs -s | awk '/644/ { print $5 }'
ipcs -l | grep -e segments -e arrays -e 'queues system'; ipcrm -a 2>/dev/null; ipcs | grep -c 644
lscpu | grep -e Architecture -e '^CPU(s)' -e NUMA | tr -s ' '; mountpoint /proc; lslocks --noheadings
choom -p $$ | grep -c adjust
exit 0
