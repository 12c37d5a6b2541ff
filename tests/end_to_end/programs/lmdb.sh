mkdir base; pairs() { for i in $(seq $1 $2); do printf 'key%04d\nvalue %d\n' $i $((i * i)); done; }
pairs 1 300 | mdb_load -T -n base/x & pairs 301 600 | mdb_load -T -n base/x & wait
mdb_stat -n base/x | grep Entries; mdb_dump -n -p base/x | grep -c value
mdb_dump -n base/x | mdb_load -n base/y
mdb_dump -n base/y | sha256sum >one; mdb_dump -n base/x | sha256sum | cmp - one && echo the same
mdb_copy -n -c base/x >base/z; mdb_stat -n base/z | grep Entries; mdb_stat -n -r base/x | tail -n 1
mdb_stat -n base/missing 2>/dev/null; echo $?
exit 0
