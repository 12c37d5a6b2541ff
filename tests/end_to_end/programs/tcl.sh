cat >server.tcl <<'END'
proc fib n { expr { $n < 2 ? $n : [fib [expr {$n - 1}]] + [fib [expr {$n - 2}]] } }
puts [fib 12]; puts [exec echo hi | tr h j]; catch { exec sh -c "exit 4" } _ options
puts [lindex [dict get $options -errorcode] 2]
proc accept { channel address port } { fconfigure $channel -buffering line
puts $channel "server [gets $channel]"; close $channel }
socket -server accept -myaddr 127.0.0.1 19100
set client [socket 127.0.0.1 19100]; fconfigure $client -buffering line; puts $client hello
fileevent $client readable { set answer [gets $client] }; vwait answer; puts $answer
after 20 { set later 1 }; vwait later
set pipe [open "|cat" r+]; puts $pipe pipe; flush $pipe; puts [gets $pipe]; close $pipe
puts [clock format 0 -gmt 1 -format %Y]
exit 3
END
tclsh server.tcl
