#include "threads.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <system_error>
#include <thread>

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int COUNT_MAX = 512;
constexpr int ADDED_AT_ONCE = 32;  // threads that are added without a longer patience
constexpr milliseconds REQUEST_PATIENCE{ 10 }, COMPLETION_PATIENCE{ 2 }, TICK{ 1 };
constexpr std::chrono::seconds IDLE_TIME{ 60 };

// A callback of torch throws where torch gives up, for example when a reference to a lost worker is not confirmed. The
// future has its error then; torch's own pool writes a line, too.
void run(const Threads::Job &job) {
    try {
        job();
    } catch (const std::exception &e) {
        std::string text = e.what();
        std::fprintf(stderr, "gradwire: a callback of torch has failed: %s\n",
                     text.substr(0, text.find('\n')).c_str());
    }
}

bool start_thread(std::function<void()> body) {
    try {
        std::thread(std::move(body)).detach();
        return true;
    } catch (const std::system_error &) {
        return false;  // the system has no more threads; those that run take the jobs
    }
}

}  // namespace

void Threads::Queue::add(Job job) {
    if (jobs.empty()) moved = Clock::now();
    jobs.push_back(std::move(job));
}

bool Threads::Queue::is_stalled(Clock::time_point now, int added) const {
    return !jobs.empty() && now - moved >= patience * (1 + added / ADDED_AT_ONCE);
}

Threads::Threads() {
    requests_.patience = REQUEST_PATIENCE;
    completions_.patience = COMPLETION_PATIENCE;
}

Threads &Threads::get() {
    static auto *threads = new Threads;
    return *threads;
}

// ---- Adding jobs ----------------------------------------------------------------------------------
void Threads::run_request(Job job) {
    Lock lock(mutex_);
    add(requests_, std::move(job), true);
}

// A thread that runs completions takes all that are ready: so many replies at once change the holder of the GIL seldom.
void Threads::run_completion(Job job) {
    Lock lock(mutex_);
    add(completions_, std::move(job), completions_.running == 0);
}

void Threads::add(Queue &q, Job job, bool needs_thread) {
    q.add(std::move(job));
    if (!is_running_ || (needs_thread && wake_thread(count_min_))) return;
    if (watch_sleeps_) watched_.notify_one();
    watch_sleeps_ = false;
}

// Wakes a thread, or starts one while there are fewer than |count_max|.
bool Threads::wake_thread(int count_max) {
    if (idle_ > woken_) {
        woken_++;
        changed_.notify_one();
        return true;
    }
    bool is_started = count_ < count_max && start_thread([this] { run_thread(); });
    count_ += is_started;
    return is_started;
}

void Threads::run_alone(Job job) {
    Lock lock(mutex_);
    auto body = [this, job] {
        if (enter_()) run(job);
        Lock ending(mutex_);
        alone_--;
        ended_.notify_all();
    };
    if (is_running_ && start_thread(body))
        alone_++;
    else
        add(requests_, std::move(job), true);
}

// ---- Running --------------------------------------------------------------------------------------
void Threads::run_thread() {
    bool may_run = enter_();
    Lock lock(mutex_);
    while (may_run && is_running_) {
        if (Queue *q = next_queue())
            run_next(*q, lock);
        else
            may_run = wait_for_job(lock);
    }
    end_thread();
}

Threads::Queue *Threads::next_queue() {
    if (!completions_.jobs.empty()) return &completions_;
    return requests_.jobs.empty() ? nullptr : &requests_;
}

void Threads::run_next(Queue &q, Lock &lock) {
    Job job = std::move(q.jobs.front());
    q.jobs.pop_front();
    q.moved = Clock::now();
    q.running++;
    lock.unlock();
    run(job);
    job = nullptr;  // what it holds is released without the lock
    lock.lock();
    q.running--;
    q.moved = Clock::now();
    if (!q.running && q.jobs.empty()) ended_.notify_all();
}

// False: this thread ends, as it has had no job for long.
bool Threads::wait_for_job(Lock &lock) {
    idle_++;
    bool is_woken =
        changed_.wait_for(lock, IDLE_TIME, [this] { return woken_ > 0 || !is_running_; });
    idle_--;
    if (woken_ > 0) woken_--;
    return is_woken;
}

void Threads::end_thread() {
    count_--;
    ended_.notify_all();
}

// Adds threads while jobs wait for those that are blocked.
void Threads::run_watch() {
    Lock lock(mutex_);
    while (is_running_) {
        watch_sleeps_ = !next_queue();
        if (watch_sleeps_)
            watched_.wait(lock);
        else
            watched_.wait_for(lock, TICK);
        auto now = Clock::now();
        int added = std::max(count_ - count_min_, 0);
        if (!completions_.is_stalled(now, added) && !requests_.is_stalled(now, added)) continue;
        completions_.moved = requests_.moved = now;
        wake_thread(COUNT_MAX);
    }
    has_watch_ = false;
    ended_.notify_all();
}

// ---- Starting and stopping ------------------------------------------------------------------------
void Threads::start(int count, bool (*enter)()) {
    Lock lock(mutex_);
    is_running_ = true;
    count_min_ = count;
    enter_ = enter;
    has_watch_ = start_thread([this] { run_watch(); });
    for (size_t i = completions_.jobs.size() + requests_.jobs.size(); i > 0; i--)
        wake_thread(count_min_);
}

void Threads::stop(milliseconds limit) {
    Lock lock(mutex_);
    auto end = Clock::now() + limit;
    std::deque<Job> dropped = std::move(requests_.jobs);
    requests_.jobs.clear();
    ended_.wait_until(lock, end, [this] {
        return !is_running_ || (completions_.jobs.empty() && completions_.running == 0);
    });
    is_running_ = false;
    changed_.notify_all();
    watched_.notify_all();
    ended_.wait_until(lock, end, [this] { return count_ == 0 && alone_ == 0 && !has_watch_; });
    lock.unlock();  // what was dropped is released without it
}

Threads::Counts Threads::count() {
    Lock lock(mutex_);
    int running = completions_.running + requests_.running, threads = std::max(count_, count_min_);
    return { threads, threads - running,
             static_cast<int>(completions_.jobs.size() + requests_.jobs.size()) };
}
