// End-to-end test: the C++ runtime and its threads, with more threads than harts.
//
//   threads [THREADS [ROUNDS]]      default 12 threads, 40 rounds
//
// Exceptions across frames and threads, thread_local objects with destructors, the
// standard containers, mutexes, condition variables, futures and atomics. Always true:
// the output depends on the arguments alone, never on how threads interleave.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

// ---- Exceptions: thrown deep down, with destructors to run on the way up ----

int guards_alive = 0;

struct Guard {
    Guard() { ++guards_alive; }
    ~Guard() { --guards_alive; }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;
};

struct DepthReached : std::runtime_error {
    explicit DepthReached(int reached)
        : std::runtime_error("depth " + std::to_string(reached)), depth(reached)
    {
    }
    int depth;
};

int descend(int depth, int limit)
{
    const Guard guard;
    if (depth == limit) {
        throw DepthReached(depth);
    }
    try {
        return descend(depth + 1, limit) + 1;
    } catch (const std::logic_error &) { // never matches: the search must go on upwards
        return -1;
    }
}

void test_exceptions()
{
    int caught = 0;
    for (int limit = 1; limit <= 20; ++limit) {
        try {
            descend(0, limit);
        } catch (const DepthReached &error) {
            caught += error.depth;
        }
    }
    std::string nested;
    try {
        try {
            descend(0, 3);
        } catch (const std::exception &) {
            std::throw_with_nested(std::invalid_argument("outer"));
        }
    } catch (const std::invalid_argument &outer) {
        nested = outer.what();
        try {
            std::rethrow_if_nested(outer);
        } catch (const DepthReached &inner) {
            nested += std::string(" around ") + inner.what();
        }
    }
    bool allocation_refused = false;
    try {
        volatile std::size_t bytes = SIZE_MAX / 2 - 1;
        ::operator delete(::operator new(bytes)); // by name: never optimised away
    } catch (const std::bad_alloc &) {
        allocation_refused = true;
    }
    std::printf("exceptions: caught %d, guards alive %d, nested \"%s\", allocation refused %d\n",
                caught, guards_alive, nested.c_str(), allocation_refused);
}

// ---- thread_local objects: one per thread, constructed late and destroyed at its end ----

std::atomic<int> locals_constructed{0};
std::atomic<int> locals_destroyed{0};

struct PerThread {
    PerThread() { ++locals_constructed; }
    ~PerThread() { ++locals_destroyed; }
    std::uint64_t calls = 0;
    std::string text;
};

thread_local PerThread per_thread;
thread_local const std::uint64_t zero_initialised_check = 0x5eed;

void test_thread_locals(unsigned threads, unsigned rounds)
{
    std::vector<std::uint64_t> calls(threads);
    std::vector<std::size_t> lengths(threads);
    std::vector<std::thread> workers;
    for (unsigned id = 0; id < threads; ++id) {
        workers.emplace_back([&, id] {
            for (unsigned i = 0; i < rounds * (id + 1); ++i) {
                per_thread.calls += zero_initialised_check - 0x5eed + 1;
                per_thread.text += static_cast<char>('a' + id % 26);
                if (i % 16 == 0) {
                    std::this_thread::yield();
                }
            }
            calls[id] = per_thread.calls;
            lengths[id] = per_thread.text.find_first_not_of(static_cast<char>('a' + id % 26)) ==
                                  std::string::npos
                              ? per_thread.text.size()
                              : 0;
        });
    }
    for (std::thread &worker : workers) {
        worker.join();
    }
    std::uint64_t sum = 0;
    for (unsigned id = 0; id < threads; ++id) {
        sum += calls[id] * (id + 1) + lengths[id];
    }
    std::printf("thread_local: sum %llu, constructed %d, destroyed %d\n",
                static_cast<unsigned long long>(sum), locals_constructed.load(),
                locals_destroyed.load());
}

// ---- Containers shared under one mutex ----

void test_containers(unsigned threads, unsigned rounds)
{
    std::mutex mutex;
    std::map<std::string, std::uint64_t> ordered;
    std::unordered_map<std::uint64_t, std::shared_ptr<std::string>> hashed;
    std::vector<std::thread> workers;
    for (unsigned id = 0; id < threads; ++id) {
        workers.emplace_back([&, id] {
            for (unsigned i = 0; i < rounds; ++i) {
                const std::string key = "key" + std::to_string((id * 7 + i * 3) % 50);
                const std::lock_guard<std::mutex> lock(mutex);
                ordered[key] += id + 1;
                auto &text = hashed[(id + i) % 64];
                if (!text) {
                    text = std::make_shared<std::string>();
                }
                text->push_back('x');
            }
        });
    }
    for (std::thread &worker : workers) {
        worker.join();
    }
    std::uint64_t fold = 0;
    for (const auto &[key, count] : ordered) {
        fold = fold * 31 + std::strtoull(key.c_str() + 3, nullptr, 10) * count;
    }
    std::size_t characters = 0;
    for (const auto &entry : hashed) {
        characters += entry.second->size();
    }
    std::printf("containers: %zu ordered, fold %llx, %zu hashed, %zu characters\n", ordered.size(),
                static_cast<unsigned long long>(fold), hashed.size(), characters);
}

// ---- A bounded queue: producers and consumers on condition variables ----

class BoundedQueue {
  public:
    explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

    void push(std::uint64_t item)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        not_full_.wait(lock, [this] { return items_.size() < capacity_; });
        items_.push_back(item);
        not_empty_.notify_one();
    }

    bool pop(std::uint64_t &item)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        not_empty_.wait(lock, [this] { return closed_ || !items_.empty(); });
        if (items_.empty()) {
            return false;
        }
        item = items_.front();
        items_.pop_front();
        not_full_.notify_one();
        return true;
    }

    void close()
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
        not_empty_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable not_full_;
    std::condition_variable not_empty_;
    std::deque<std::uint64_t> items_;
    std::size_t capacity_;
    bool closed_ = false;
};

void test_queue(unsigned threads, unsigned rounds)
{
    BoundedQueue queue(4);
    std::atomic<std::uint64_t> sum{0};
    std::atomic<std::uint64_t> count{0};
    std::vector<std::thread> consumers;
    std::vector<std::thread> producers;
    for (unsigned id = 0; id < threads / 2 + 1; ++id) {
        consumers.emplace_back([&] {
            std::uint64_t item;
            while (queue.pop(item)) {
                sum += item * item;
                ++count;
            }
        });
        producers.emplace_back([&, id] {
            for (unsigned i = 0; i < rounds; ++i) {
                queue.push(id * 1000 + i);
            }
        });
    }
    for (std::thread &producer : producers) {
        producer.join();
    }
    queue.close();
    for (std::thread &consumer : consumers) {
        consumer.join();
    }
    std::printf("queue: %llu items, sum of squares %llu\n",
                static_cast<unsigned long long>(count.load()),
                static_cast<unsigned long long>(sum.load()));
}

// ---- Futures: results and exceptions from other threads; timed waits ----

void test_futures(unsigned threads)
{
    std::vector<std::future<int>> futures;
    for (unsigned id = 0; id < threads; ++id) {
        futures.push_back(std::async(std::launch::async, [id] {
            if (id % 3 == 2) {
                throw DepthReached(static_cast<int>(id));
            }
            return static_cast<int>(id * id);
        }));
    }
    int sum = 0;
    int thrown = 0;
    for (std::future<int> &future : futures) {
        try {
            sum += future.get();
        } catch (const DepthReached &error) {
            thrown += error.depth;
        }
    }
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock<std::mutex> lock(mutex);
    const auto before = std::chrono::steady_clock::now();
    const bool woken =
        never.wait_for(lock, std::chrono::milliseconds(5), [] { return false; });
    const bool waited =
        std::chrono::steady_clock::now() - before >= std::chrono::milliseconds(5);
    std::printf("futures: sum %d, thrown %d, woken %d, waited %d\n", sum, thrown, woken, waited);
}

// ---- Atomics of every width, contended ----

template <typename Word> std::uint64_t contend(unsigned threads, unsigned rounds)
{
    std::atomic<Word> added{0};
    std::atomic<Word> exchanged{0};
    std::vector<std::thread> workers;
    for (unsigned id = 0; id < threads; ++id) {
        workers.emplace_back([&, id] {
            for (unsigned i = 0; i < rounds; ++i) {
                added.fetch_add(static_cast<Word>(id + 1));
                Word seen = exchanged.load(std::memory_order_relaxed);
                while (!exchanged.compare_exchange_weak(seen, static_cast<Word>(seen + 3))) {
                }
            }
        });
    }
    for (std::thread &worker : workers) {
        worker.join();
    }
    return static_cast<std::uint64_t>(added.load()) * 1000003 + exchanged.load();
}

void test_atomics(unsigned threads, unsigned rounds)
{
    std::printf("atomics: 8 bits %llu, 16 bits %llu, 32 bits %llu, 64 bits %llu\n",
                static_cast<unsigned long long>(contend<std::uint8_t>(threads, rounds)),
                static_cast<unsigned long long>(contend<std::uint16_t>(threads, rounds)),
                static_cast<unsigned long long>(contend<std::uint32_t>(threads, rounds)),
                static_cast<unsigned long long>(contend<std::uint64_t>(threads, rounds)));
}

} // namespace

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? std::atoi(argv[1]) : 12;
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 40;
    if (argc > 3 || threads < 1 || threads > 256 || rounds < 1) {
        std::fprintf(stderr, "usage: threads [THREADS (1 to 256) [ROUNDS]]\n");
        return 2;
    }
    const auto thread_count = static_cast<unsigned>(threads);
    const auto round_count = static_cast<unsigned>(rounds);
    test_exceptions();
    test_thread_locals(thread_count, round_count);
    test_containers(thread_count, round_count);
    test_queue(thread_count, round_count);
    test_futures(thread_count);
    test_atomics(thread_count, round_count);
    std::once_flag once;
    for (int i = 0; i < 2; ++i) {
        std::call_once(once, [] { std::puts("threads: done"); });
    }
    return EXIT_SUCCESS;
}
