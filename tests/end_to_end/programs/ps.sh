sleep 50 & sleep 51 & until [ $(pgrep -c sleep) = 2 ]; do sleep 0.01; done
ps -o comm= | sort | uniq -c | awk '{ print $1, $2 }'; pgrep -f 'sleep 51' | wc -l
pkill -f 'sleep 51'; wait %2 2>/dev/null; echo $?
left=$(pgrep sleep); ps -o args= -p $left; kill -STOP $left; true; ps -o stat= -p $left | cut -c1
pwdx $$ | cut -d ' ' -f 2; free | wc -l; uptime -p
ls -l /proc/$$/fd/0 | grep -o 'null$'; readlink /proc/$$/cwd /proc/$$/exe
exec 7<script; readlink /proc/$left/cwd /proc/$$/fd/7; ls /proc/$left/fd | tr '\n' ' '
echo; wc -l </proc/$$/fd/7; kill -9 $left; wait 2>/dev/null; pgrep sleep; echo $?
exit 0
