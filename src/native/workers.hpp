// Threads that wait for work. Starting a thread costs more than some of the work that is shared out here.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace inferl {

class Workers {
  public:
    // Call work(0), ..., work(tasks - 1) on up to `threads` threads, this one included. Tasks must not depend on each
    // other, so that results do not depend on who does them. While the workers are busy for another thread, this one
    // does all of its tasks itself.
    template <class Work>
    static void share(std::size_t tasks, int threads, const Work &work) {
        Workers &all = instance();
        const std::size_t helpers = std::min<std::size_t>(std::max(threads, 1), tasks) - (tasks > 0);
        std::unique_lock<std::mutex> mine(all.busy_, std::defer_lock);
        if (helpers == 0 || !mine.try_lock()) {
            for (std::size_t task = 0; task < tasks; ++task) work(task);
            return;
        }
        all.begin(tasks, helpers, &work, [](const void *w, std::size_t task) { (*static_cast<const Work *>(w))(task); });
        all.work();
        all.end();
    }

  private:
    // Work often comes in quick succession. Falling asleep and waking up takes longer than to look again a few times,
    // which is some microseconds; more would take time from other processes.
    static constexpr int LOOKS = 500;

    static void pause() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }

    static Workers *&current() {
        static Workers *workers = nullptr;
        return workers;
    }

    // Never destroyed: its threads may outlive everything. A forked process has none of the threads, and starts anew.
    static Workers &instance() {
        static std::once_flag once;
        std::call_once(once, [] {
            current() = new Workers;
            pthread_atfork(nullptr, nullptr, [] { current() = new Workers; });
        });
        return *current();
    }

    void begin(std::size_t tasks, std::size_t helpers, const void *work, void (*call)(const void *, std::size_t)) {
        {
            std::lock_guard<std::mutex> guard(mutex_);
            work_ = work;
            call_ = call;
            tasks_ = tasks;
            next_.store(0);
            helpers_ = helpers;
            at_work_.store(helpers);
            ++round_;
            for (; started_ < helpers; ++started_) std::thread([this, n = started_] { wait_for_work(n); }).detach();
        }
        wake_.notify_all();
    }

    // An error, as when memory runs out, ends the round; the thread that shared the work out reports it.
    void work() {
        try {
            for (std::size_t task; (task = next_.fetch_add(1)) < tasks_;) call_(work_, task);
        } catch (...) {
            next_.store(tasks_);
            std::lock_guard<std::mutex> guard(mutex_);
            if (!error_) error_ = std::current_exception();
        }
    }

    void end() {
        for (int i = 0; i < LOOKS && at_work_.load() > 0; ++i) pause();
        std::unique_lock<std::mutex> guard(mutex_);
        done_.wait(guard, [&] { return at_work_ == 0; });
        if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    }

    void wait_for_work(std::size_t number) {
        std::size_t seen = 0;
        std::unique_lock<std::mutex> guard(mutex_);
        for (;;) {
            guard.unlock();
            for (int i = 0; i < LOOKS && round_.load() == seen; ++i) pause();
            guard.lock();
            wake_.wait(guard, [&] { return round_ != seen && number < helpers_; });
            seen = round_;
            guard.unlock();
            work();
            guard.lock();
            if (--at_work_ == 0) done_.notify_one();
        }
    }

    std::mutex busy_, mutex_;
    std::condition_variable wake_, done_;
    std::atomic<std::size_t> next_{0}, at_work_{0}, round_{0};
    std::size_t tasks_ = 0, helpers_ = 0, started_ = 0;
    const void *work_ = nullptr;
    void (*call_)(const void *, std::size_t) = nullptr;
    std::exception_ptr error_;
};

}  // namespace inferl
