zsh -fc '
list=(3 1 2); echo ${(j:-:)${(o)list}} ${#list}; sleep 0.02 & wait; echo $?
zmodload zsh/zpty; zpty shell "echo on a terminal"; zpty -r shell line; echo ${line%%$'"'\\r'"'*}
zmodload zsh/net/tcp; ztcp -l 19200; listener=$REPLY; ztcp 127.0.0.1 19200; client=$REPLY
ztcp -a $listener; server=$REPLY; echo over tcp >&$server; read -r line <&$client; echo $line
zmodload zsh/mathfunc; echo $((sqrt(2))); TRAPUSR1() { echo trapped }; kill -USR1 $$; mkdir -p a/b; touch a/b/c; print -l **/*(.)
cat =(echo temporary) | tee >(tr a-z A-Z >upper) | cat; while [[ ! -s upper ]] sleep 0.01; cat upper; exit 8'
