// The threads of the agent. They run requests of other workers and what torch has to do when a reply arrives. Both may
// wait for other calls, inside Python code as well, so the number of threads is not fixed: while jobs wait and no job
// of their kind has been started or has ended for a moment, a thread is added. The moment grows with their number: many
// threads that wait for the GIL alone are slow, too. Threads that have no job end after a minute.
//
// Threads: every function is called on any thread, without the GIL.
#ifndef PYTHON_TORCH_THREADS_H
#define PYTHON_TORCH_THREADS_H

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

class Threads {
  public:
    using Job = std::function<void()>;

    struct Counts {
        int threads, idle, waiting_jobs;
    };

    static Threads &get();  // of the process; never destroyed, since its threads may outlive main

    // Runs jobs from now on; those that were added before start now. |enter| prepares a new thread; if it returns
    // false, the thread ends.
    void start(int count, bool (*enter)());

    void run_request(Job job);
    void run_completion(Job job);  // before requests
    void run_alone(Job job);       // on a thread that has run no job before, and that ends then

    // Runs the completions that have been added, drops the requests, and waits until all threads have ended: at most
    // for |limit|. Threads that still run then end after their job.
    void stop(std::chrono::milliseconds limit);

    Counts count();

  private:
    struct Queue {
        std::deque<Job> jobs;
        std::chrono::steady_clock::time_point
            moved;  // when a job was added to none, started, or has ended
        std::chrono::milliseconds patience;
        int running = 0;

        void add(Job job);
        bool is_stalled(std::chrono::steady_clock::time_point now, int added) const;
    };
    using Lock = std::unique_lock<std::mutex>;

    Threads();
    void add(Queue &q, Job job, bool needs_thread);
    bool wake_thread(int count_max);
    void run_thread();
    Queue *next_queue();
    void run_next(Queue &q, Lock &lock);
    bool wait_for_job(Lock &lock);
    void run_watch();
    void end_thread();

    std::mutex mutex_;
    std::condition_variable changed_, watched_, ended_;
    Queue completions_, requests_;
    bool (*enter_)() = nullptr;
    bool is_running_ = false, has_watch_ = false, watch_sleeps_ = false;
    int count_min_ = 0, count_ = 0, idle_ = 0, woken_ = 0, alone_ = 0;
};

#endif
