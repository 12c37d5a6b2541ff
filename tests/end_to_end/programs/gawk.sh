seq 1 200 | gawk '
{ sum += $1; rest[$1 % 5] = rest[$1 % 5] " " $1 }
END {
    print sum; PROCINFO["sorted_in"] = "@ind_num_asc"; for (k in rest) print k, length(rest[k])
    "echo a command" | getline answer; print answer
    print "to a coprocess" |& "cat"; close("cat", "to"); "cat" |& getline answer; print answer
    PROCINFO["sed -u s/a/b/", "pty"] = 1
    print "a terminal" |& "sed -u s/a/b/"; "sed -u s/a/b/" |& getline answer; print answer
    print system("exit 3"); printf "%s %5.2f\n", toupper("q"), exp(1)
    exit 6
}'
