python3 -I -S - <<'END'
import os
child, terminal = os.forkpty()
if child == 0:
    print(os.isatty(0), os.getpgrp() == os.getpid() == os.tcgetpgrp(0))
    print(input()[::-1])
    os._exit(0)
text = b""
while not text.endswith(b"\n"):
    text += os.read(terminal, 100)
os.write(terminal, b"hello\n")
try:
    while piece := os.read(terminal, 100):
        text += piece
except OSError as error:
    print(error.errno)
print(text, os.waitpid(child, 0)[1])
nameless = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o640)
os.write(nameless, b"named later\n")
here = os.open(".", os.O_RDONLY)
# With a folder, Python asks for a link to what the name leads to, and not to the name.
os.link(f"/proc/self/fd/{nameless}", "name", src_dir_fd=here, follow_symlinks=True)
print(open("name").read(), end="")
area = os.memfd_create("area")
os.write(area, bytes(5000))
first, second = os.pipe()
print(os.splice(area, second, 3000, offset_src=0), len(os.read(first, 9999)))
timer = os.eventfd(3)
print(os.eventfd_read(timer))
END
