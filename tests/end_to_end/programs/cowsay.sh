cowsay moo; type -p cowsay | grep -o /cowsay
printf '#!/usr/bin/env -S bash -e\necho ${0##*/} $1\nfalse\n' >own; chmod +x own; ./own 1; echo $?
printf '#!/nothing\n' >bad; chmod +x bad; ./bad 2>/dev/null; echo $?; PATH=$PWD:$PATH own 2
