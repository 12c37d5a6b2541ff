perl -e '
use strict; use Socket; use Fcntl qw(:flock); use IPC::SysV qw(IPC_PRIVATE IPC_RMID IPC_NOWAIT);
my $child = open(my $pipe, "-|") // die; if (!$child) { print "from a child\n"; exit 0 }
print <$pipe>; close $pipe;
my $segment = shmget(IPC_PRIVATE, 100, 0600); shmwrite($segment, "shared", 0, 6);
my $queue = msgget(IPC_PRIVATE, 0600); my $semaphore = semget(IPC_PRIVATE, 1, 0600);
if (!fork) { semop($semaphore, pack("s!3", 0, -2, 0)); shmread($segment, my $text, 0, 6);
    msgsnd($queue, pack("l! a*", 5, "$text by the child"), 0); exit 4 }
semop($semaphore, pack("s!3", 0, 2, 0)); msgrcv($queue, my $message, 50, 5, 0);
print unpack("x[l!] a*", $message), "\n"; wait; print $? >> 8, "\n";
print defined msgrcv($queue, $message, 50, 0, IPC_NOWAIT) ? "more\n" : "empty\n";
shmctl($segment, IPC_RMID, 0); msgctl($queue, IPC_RMID, 0); semctl($semaphore, 0, IPC_RMID, 0);
socketpair(my $one, my $other, AF_UNIX, SOCK_SEQPACKET, PF_UNSPEC);
syswrite $one, "two"; syswrite $one, "packets"; sysread $other, my $text, 9; print "$text\n";
open my $lock, ">", "lock"; flock $lock, LOCK_EX; open my $again, ">", "lock";
print flock($again, LOCK_EX | LOCK_NB) ? "twice\n" : "locked\n";
local $SIG{ALRM} = sub { print "alarm\n" }; alarm 1; select undef, undef, undef, 5;
open my $nameless, "+>", undef; print $nameless "kept"; seek $nameless, 0, 0; print <$nameless>, "\n";
$| = 1; exec "sh", "-c", "exit 7"'
