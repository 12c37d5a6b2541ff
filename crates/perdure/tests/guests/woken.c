/* A thread looks until it sees what another one does that it has started. */
#include <pthread.h>
#include <stdatomic.h>

static atomic_int runs;

static void *begin(void *none)
{
	atomic_store(&runs, 1);
	return none;
}

int main(void)
{
	pthread_t other;

	if (pthread_create(&other, NULL, begin, NULL))
		return 1;
	while (!atomic_load(&runs))
		;
	return pthread_join(other, NULL) ? 1 : 0;
}
