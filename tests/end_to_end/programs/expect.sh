cat >talk.exp <<'END'
set timeout 20
log_user 0
spawn bash --norc -i
expect -re {[$#] $}
send "PS1=P; echo \$((6*7))\r"
expect "42"; puts found
send "stty -a | head -n 1; exit 5\r"
expect -re {rows ([0-9]+)}; puts $expect_out(1,string)
expect eof; puts [lindex [wait] 3]
spawn cat
send "abc\r"; expect "abc"; expect "abc"; puts echoed
send "\004"; expect eof; wait
spawn sh -c { trap "echo interrupted; exit 3" INT; echo ready; sleep 10 }
expect ready; send "\003"; expect interrupted; expect eof; puts [lindex [wait] 3]
END
expect talk.exp
