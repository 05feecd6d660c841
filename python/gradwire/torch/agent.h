// The agent of torch.distributed.rpc over the agent of the process: each request of torch is one call of the function
// "torch.message". Requests run on the threads of threads.h, and so do completions.
//
// Threads: any thread calls it, with or without the GIL.
#ifndef PYTHON_TORCH_AGENT_H
#define PYTHON_TORCH_AGENT_H

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compat.h"
#include "holders.h"
#include "message.h"

// core_capi, which core/capi.h declares, is set once by the module.
struct core_capi;
extern const core_capi *core;

// A scope for one operation of this thread; false if the process has no agent.
class OwnScope {
  public:
    OwnScope();
    ~OwnScope();
    OwnScope(const OwnScope &) = delete;
    OwnScope &operator=(const OwnScope &) = delete;

    explicit operator bool() const {
        return scope_;
    }
    operator gw_scope *() const {
        return scope_;
    }

  private:
    gw_scope *scope_;
};

class Agent : public rpc::RpcAgent, public std::enable_shared_from_this<Agent> {
  public:
    // Names by rank. The process has joined the job.
    Agent(std::vector<std::string> names, int rank, float timeout_s, int threads);
    ~Agent() override;

    static void register_functions(gw_scope *s, gw_registry *r);
    static bool is_served();  // whether the worker has joined with these functions

    bool is_running() const {
        return !has_left_ && rpcAgentRunning_;
    }

    FuturePtr send(const rpc::WorkerInfo &to, MessagePtr message, const float timeout_s,
                   const rpc::DeviceMap &device_map) override;
    const rpc::WorkerInfo &getWorkerInfo(const std::string &name) const override;
    const rpc::WorkerInfo &getWorkerInfo(rpc::worker_id_t id) const override;
    using rpc::RpcAgent::getWorkerInfo;
    std::vector<rpc::WorkerInfo> getWorkerInfos() const override;
    void join(bool shutdown, float timeout_s) override;
    void sync() override;
    void startImpl() override;
    void shutdownImpl() override;
    std::unordered_map<std::string, std::string> getMetrics() override;
    void addGilWaitTime(const std::chrono::microseconds time) override;

  private:
    struct Ending;   // of a call
    struct Call;     // made here, and not complete yet
    struct Request;  // of another worker
    struct Watched;  // a worker whose loss is awaited

    static gw_value receive(gw_scope *s, const gw_args *a);
    static void finish(gw_scope *s, gw_future *reply, void *context);
    static void lose(gw_scope *s, gw_future *lost, void *context);
    void start_call(gw_scope *s, const rpc::WorkerInfo &to, MessagePtr message, Call *call);
    void complete(Call &call, Parcel &reply);
    void end_call();
    static void serve_current(const std::shared_ptr<Request> &request);
    void serve(const std::shared_ptr<Request> &request);
    FuturePtr process(Request &request);
    void reply(Request &request, rpc::JitFuture &result);
    void watch(gw_scope *s, int rank);
    void release_worker(int rank, const std::string &why);
    void await_calls(float timeout_s);
    void leave(bool is_graceful, float timeout_s);

    std::vector<rpc::WorkerInfo> workers_;  // by rank
    int thread_count_;
    Holders holders_;
    std::mutex mutex_;
    std::condition_variable calls_ended_;
    int calls_ = 0;                   // guarded by the mutex
    std::atomic<int> served_{ 0 };    // requests that run
    std::atomic<int> replying_{ 0 };  // requests whose result is awaited
    std::atomic<bool> has_left_{ false };
    std::atomic<int64_t> gil_wait_us_{ 0 }, gil_waits_{ 0 };
};

#endif
