/* What a pipe holds is part of the kernel's saved state: first long and of ones, then empty, then long and of
 * zeros, so that a state ends before what an earlier one has left, and a later one covers that again. */
#include <string.h>
#include <unistd.h>

enum { LONG = 3000, ROUNDS = 12 };

static unsigned char bytes[LONG];

static void wait_a_while(void)
{
	for (volatile int i = 0; i < 60000; i++)
		;
}

/* True if what was put into the pipe comes out of it. */
static int passes(const int *ends, int value)
{
	memset(bytes, value, LONG);
	if (write(ends[1], bytes, LONG) != LONG)
		return 0;
	wait_a_while();
	memset(bytes, value + 1, LONG);
	if (read(ends[0], bytes, LONG) != LONG)
		return 0;
	for (int i = 0; i < LONG; i++)
		if (bytes[i] != value)
			return 0;
	return 1;
}

int main(void)
{
	int ends[2];

	if (pipe(ends))
		return 1;
	for (int i = 0; i < 3; i++)
		if (!passes(ends, 1))
			return 2;
	for (int i = 0; i < ROUNDS; i++) {
		wait_a_while();
		getppid();
	}
	for (int i = 0; i < ROUNDS; i++)
		if (!passes(ends, 0))
			return 3;
	return 0;
}
