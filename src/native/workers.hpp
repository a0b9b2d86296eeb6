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
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace inferl {

// While it lives, subnormal numbers count as 0 in its thread. What decays over thousands of steps ends among them, and
// arithmetic with them is a hundred times slower.
class Flushing {
#if defined(__x86_64__)
  public:
    Flushing() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040u); }
    ~Flushing() { _mm_setcsr(before_); }
    Flushing(const Flushing &) = delete;
    Flushing &operator=(const Flushing &) = delete;

  private:
    unsigned before_;
#endif
};

class Workers {
  public:
    // Call work(0), ..., work(tasks - 1) on up to `threads` threads, this one included. Tasks must not depend on each
    // other, so that results do not depend on who does them. Several threads may share work out at once: a worker that
    // finds no task of one helps another.
    template <class Work>
    static void share(std::size_t tasks, int threads, const Work &work) {
        const std::size_t helpers = std::min<std::size_t>(std::max(threads, 1), tasks) - (tasks > 0);
        if (helpers == 0) {
            for (std::size_t task = 0; task < tasks; ++task) work(task);
            return;
        }
        Job job{&work, [](const void *w, std::size_t task) { (*static_cast<const Work *>(w))(task); }, tasks, helpers};
        Workers &all = instance();
        all.begin(job);
        all.work(job);
        all.end(job);
    }

  private:
    struct Job {
        const void *work;
        void (*call)(const void *, std::size_t);
        std::size_t tasks, most;  // most helpers
        std::atomic<std::size_t> next{0}, helping{0};
        std::exception_ptr error{};

        bool wants_help() const { return next.load() < tasks && helping.load() < most; }
    };

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

    void begin(Job &job) {
        {
            std::lock_guard<std::mutex> guard(mutex_);
            jobs_.push_back(&job);
            ++round_;
            for (; started_ < job.most; ++started_) std::thread([this] { wait_for_work(); }).detach();
        }
        wake_.notify_all();
    }

    // An error, as when memory runs out, ends the job; the thread that shared the work out reports it.
    void work(Job &job) {
        try {
            for (std::size_t task; (task = job.next.fetch_add(1)) < job.tasks;) job.call(job.work, task);
        } catch (...) {
            job.next.store(job.tasks);
            std::lock_guard<std::mutex> guard(mutex_);
            if (!job.error) job.error = std::current_exception();
        }
    }

    void end(Job &job) {
        for (int i = 0; i < LOOKS && job.helping.load() > 0; ++i) pause();
        std::unique_lock<std::mutex> guard(mutex_);
        jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
        done_.wait(guard, [&] { return job.helping == 0; });
        if (job.error) std::rethrow_exception(job.error);
    }

    void wait_for_work() {
        const Flushing flushing;
        std::unique_lock<std::mutex> guard(mutex_);
        for (;;) {
            auto found = jobs_.end();
            const auto look = [&] {
                found = std::find_if(jobs_.begin(), jobs_.end(), [](const Job *job) { return job->wants_help(); });
                return found != jobs_.end();
            };
            if (!look()) {
                const std::size_t seen = round_;
                guard.unlock();
                for (int i = 0; i < LOOKS && round_.load() == seen; ++i) pause();
                guard.lock();
                wake_.wait(guard, look);
            }
            Job &job = **found;
            ++job.helping;
            guard.unlock();
            work(job);
            guard.lock();
            if (--job.helping == 0) done_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_, done_;
    std::vector<Job *> jobs_;  // that are being done
    std::atomic<std::size_t> round_{0};
    std::size_t started_ = 0;
};

}  // namespace inferl
