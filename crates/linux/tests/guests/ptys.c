/* Pseudo-terminals as old programs ask them for their settings, and as they tell their owners of input.
 * ptys.txt has the facts as Linux states them (qemu-user does not know `struct termio`). */
#include "facts.h"
#include <asm/termbits.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

int grantpt(int), unlockpt(int);
char *ptsname(int);

static volatile sig_atomic_t told;

static void hear(int signal)
{
    (void)signal;
    told++;
}

/* Whether it was told since the last time. */
static int news(void)
{
    struct timespec time = {0, 20000000};
    while (nanosleep(&time, &time) < 0) {
    }
    int any = told > 0;
    told = 0;
    return any;
}

int main(void)
{
    struct termio old;
    struct termios all;
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGIO, hear);
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    CALL(grantpt(master));
    CALL(unlockpt(master));
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    struct stat status;
    CALL(fstat(slave, &status));
    FACT(status.st_mode);
    FACT(status.st_uid == getuid());
    FACT(status.st_gid); /* That of tty, as distributions mount it. */

    CALL(ioctl(slave, TCGETA, &old));
    CALL(ioctl(slave, TCGETS, &all));
    FACT(old.c_iflag == (unsigned short)all.c_iflag);
    FACT(old.c_oflag == (unsigned short)all.c_oflag);
    FACT(old.c_cflag == (unsigned short)all.c_cflag);
    FACT(old.c_lflag == (unsigned short)all.c_lflag);
    FACT(old.c_line);
    FACT(memcmp(old.c_cc, all.c_cc, 8));
    old.c_lflag &= ~(ICANON | ECHO);
    old.c_cc[VINTR] = 7;
    CALL(ioctl(slave, TCSETA, &old));
    CALL(ioctl(slave, TCGETS, &all));
    FACT((all.c_lflag & (ICANON | ECHO | ISIG)) == ISIG);
    FACT(all.c_cc[VINTR]);
    FACT(all.c_cc[VLNEXT]);
    write(master, "typed", 5);
    news();
    CALL(ioctl(slave, TCSETAW, &old));
    int count;
    CALL(ioctl(slave, FIONREAD, &count));
    FACT(count);
    CALL(ioctl(slave, TCSETAF, &old));
    CALL(ioctl(slave, FIONREAD, &count));
    FACT(count);
    CALL(ioctl(master, TCGETA, &old));
    CALL(ioctl(slave, TCGETA, NULL));

    /* Packet mode, and settings that are locked: those are for superusers. */
    int packets = -1;
    CALL(ioctl(master, TIOCGPKT, &packets));
    FACT(packets);
    CALL(ioctl(master, TIOCPKT, &(int){1}));
    CALL(ioctl(master, TIOCGPKT, &packets));
    FACT(packets);
    CALL(ioctl(master, TIOCPKT, &(int){0}));
    CALL(ioctl(slave, TIOCGPKT, &packets));
    struct termios locks;
    memset(&locks, 1, sizeof locks);
    CALL(ioctl(slave, TIOCGLCKTRMIOS, &locks));
    FACT(locks.c_lflag | locks.c_cc[VINTR]);
    CALL(ioctl(slave, TIOCSLCKTRMIOS, &locks));

    /* Output that is held back, and asking the other end to hold its own. */
    CALL(fcntl(slave, F_SETFL, O_RDWR | O_NONBLOCK));
    CALL(ioctl(slave, TCXONC, TCOOFF));
    CALL(write(slave, "x", 1));
    CALL(ioctl(slave, TCXONC, TCOON));
    CALL(write(slave, "y", 1));
    CALL(ioctl(slave, TCXONC, TCIOFF));
    CALL(ioctl(slave, TCXONC, TCION));
    CALL(fcntl(slave, F_SETFL, O_RDWR));
    char flow[4] = {0};
    CALL(read(master, flow, 4));
    FACT(flow[0] * 65536 + flow[1] * 256 + flow[2]);
    CALL(ioctl(slave, TCXONC, 4));
    CALL(ioctl(slave, TCXONC, -1));

    /* Nobody is told who did not ask; who asks is the owner, if there is no other. */
    int on = 1, off = 0;
    char byte[8];
    FACT(fcntl(slave, F_GETOWN));
    write(master, "a", 1);
    FACT(news());
    CALL(ioctl(slave, FIOASYNC, &on));
    FACT((fcntl(slave, F_GETFL) & O_ASYNC) != 0);
    FACT(fcntl(slave, F_GETOWN) == getpid());
    write(master, "b", 1);
    FACT(news());
    CALL(read(slave, byte, 8));
    FACT(news());
    CALL(ioctl(slave, FIOASYNC, &off));
    write(master, "c", 1);
    FACT(news());
    CALL(fcntl(master, F_SETFL, O_ASYNC | O_RDWR));
    FACT(fcntl(master, F_GETOWN) == getpid());
    write(slave, "d", 1);
    FACT(news());
    CALL(read(master, byte, 8));
    /* In canonical mode, when the line is complete; an echo tells the master. */
    all.c_lflag |= ICANON | ECHO;
    CALL(ioctl(slave, TCSETSF, &all));
    CALL(fcntl(master, F_SETFL, O_RDWR));
    CALL(fcntl(slave, F_SETFL, O_ASYNC | O_RDWR));
    FACT(news());
    write(master, "ef", 2);
    FACT(news());
    write(master, "\n", 1);
    FACT(news());
    CALL(read(slave, byte, 8));
    CALL(fcntl(slave, F_SETFL, O_RDWR));
    CALL(fcntl(master, F_SETFL, O_ASYNC | O_RDWR));
    write(master, "g", 1);
    FACT(news());
    return 0;
}
