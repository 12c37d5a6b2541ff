// The C++ runtime: exceptions across frames and threads, thread-local objects, containers.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct Counted {
    static std::atomic<int> alive;
    Counted() { alive++; }
    ~Counted() { alive--; }
};
std::atomic<int> Counted::alive{0};
thread_local Counted local;

static int thrower(int depth) {
    Counted here;
    if (depth == 0) throw std::runtime_error("at the bottom");
    return thrower(depth - 1) + 1;
}

int main() {
    try {
        thrower(50);
    } catch (const std::exception &e) {
        std::printf("%s, %d alive\n", e.what(), Counted::alive.load());
    }
    std::vector<std::thread> threads;
    std::mutex mutex;
    std::map<int, std::string> results;
    for (int i = 0; i < 12; i++)
        threads.emplace_back([&, i] {
            (void)&local;
            std::string text;
            try {
                thrower(i);
            } catch (const std::runtime_error &e) {
                text = e.what() + std::to_string(i);
            }
            std::lock_guard<std::mutex> lock(mutex);
            results[i] = text;
        });
    for (auto &thread : threads) thread.join();
    for (auto &[key, value] : results) std::printf("%d %s\n", key, value.c_str());
    auto future = std::async(std::launch::async, [] { return thrower(3); });
    try {
        future.get();
    } catch (const std::runtime_error &e) {
        std::printf("future: %s\n", e.what());
    }
    std::condition_variable condition;
    bool ready = false;
    std::thread waker([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        std::lock_guard<std::mutex> lock(mutex);
        ready = true;
        condition.notify_all();
    });
    {
        std::unique_lock<std::mutex> lock(mutex);
        bool in_time = condition.wait_for(lock, std::chrono::seconds(100), [&] { return ready; });
        std::printf("in time %d\n", in_time);
    }
    waker.join();
    std::vector<int> numbers(100000);
    for (size_t i = 0; i < numbers.size(); i++) numbers[i] = int(i * 7919 % 100003);
    std::sort(numbers.begin(), numbers.end());
    std::printf("%d %d, %d alive\n", numbers[0], numbers[99999], Counted::alive.load());
    return 0;
}
