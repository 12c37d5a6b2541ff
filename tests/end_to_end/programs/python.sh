python3 -I -S - <<'END'
import os
child, terminal = os.forkpty()
if child == 0:
    print(os.isatty(0), os.getpgrp() == os.getpid() == os.tcgetpgrp(0))
    print(input()[::-1])
    os._exit(0)
os.write(terminal, b"hello\n")
text = b""
try:
    while piece := os.read(terminal, 100):
        text += piece
except OSError as error:
    print(error.errno)
print(text, os.waitpid(child, 0)[1])
nameless = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o640)
os.write(nameless, b"named later\n")
os.link(f"/proc/self/fd/{nameless}", "name", follow_symlinks=True)
print(open("name").read(), end="")
area = os.memfd_create("area")
os.write(area, bytes(5000))
first, second = os.pipe()
print(os.splice(area, second, 3000, offset_src=0), len(os.read(first, 9999)))
timer = os.eventfd(3)
print(os.eventfd_read(timer))
END
