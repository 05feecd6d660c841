#include "agent.h"

#include <algorithm>
#include <optional>

#include "core/capi.h"
#include "threads.h"

namespace py = pybind11;
using std::chrono::milliseconds;

const core_capi *core;

namespace {

constexpr milliseconds STOP_TIME{ 30000 }, SIGNAL_TIME{ 100 };
constexpr char FUNCTION[] = "torch.message";

// For functions that wait: torch calls them with and without the GIL.
class WithoutGil {
  public:
    WithoutGil() {
        if (PyGILState_Check()) released_.emplace();
    }

  private:
    std::optional<py::gil_scoped_release> released_;
};

std::exception_ptr exception(const std::string &text) {
    return std::make_exception_ptr(std::runtime_error(text));
}

// Programs match torch's text for a deadline; the sentence of the library follows it.
std::string text_of(const gw_error &error, int64_t timeout_ms) {
    if (error.status != GW_TIMEOUT)
        return rpc::makeRPCError(error.text, rpc::RPCErrorType::UNKNOWN_ERROR);
    std::string text = "RPC ran for more than set timeout (" + std::to_string(timeout_ms) +
                       " ms) and will now be marked with an error: " + error.text;
    return rpc::makeRPCError(text, rpc::RPCErrorType::TIMEOUT);
}

MessagePtr response_of(rpc::JitFuture &result, int64_t id) {
    if (result.hasError())
        return rpc::createExceptionResponse(result.tryRetrieveErrorMessage(), id);
    auto message = result.value().toCustomClass<rpc::Message>();
    message->setId(id);
    return message;
}

gw_value list_of(gw_scope *s, rpc::Message &message) {
    MessageValues values(s, message);
    gw_list *list = gw_list_open(s);
    for (int i = 0; i < values.get().count; i++) gw_list_add_with(s, list, values.get().items[i]);
    return gw_value_of_list(list);
}

int64_t milliseconds_of(float seconds, milliseconds otherwise) {
    if (seconds == rpc::kUnsetRpcTimeout) return otherwise.count();
    auto ms = static_cast<int64_t>(seconds * rpc::kSecToMsConversion);
    return seconds > 0 ? std::max<int64_t>(ms, 1) : GW_NO_TIMEOUT;
}

}  // namespace

OwnScope::OwnScope() : scope_(core->begin()) {}

OwnScope::~OwnScope() {
    if (scope_) core->end(scope_);
}

// ---- Calls ----------------------------------------------------------------------------------------
// Callbacks of torch may throw when a call completes.
struct Agent::Ending {
    Agent &agent;
    ~Ending() {
        agent.end_call();
    }
};

struct Agent::Call {
    std::shared_ptr<Agent> agent;
    FuturePtr result;
    int64_t timeout_ms;

    void fail(const std::string &text) {
        Ending ending{ *agent };
        result->setErrorIfNeeded(exception(text));
    }
};

// torch holds locks of its own here, and in destructors the GIL as well. So the GIL is neither taken nor released:
// another thread may hold it and wait for such a lock.
FuturePtr Agent::send(const rpc::WorkerInfo &to, MessagePtr message, const float timeout_s,
                      const rpc::DeviceMap &) {
    OwnScope s;
    TORCH_CHECK(s && rpcAgentRunning_, "worker ", workerInfo_.name_,
                " cannot send a message: its RPC agent does not run");
    auto result = c10::make_intrusive<rpc::JitFuture>(at::AnyClassType::get());
    int64_t timeout_ms = milliseconds_of(timeout_s, getRpcTimeout());
    start_call(s, to, std::move(message), new Call{ shared_from_this(), result, timeout_ms });
    return result;
}

void Agent::start_call(gw_scope *s, const rpc::WorkerInfo &to, MessagePtr message, Call *call) {
    std::unique_ptr<Call> owned(call);
    MessageValues values(s, *message);
    gw_call_options options;
    options.timeout_ms = call->timeout_ms;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        calls_++;
    }
    gw_future *reply = gw_rpc_async_with(s, gw_to_rank(to.id_), FUNCTION, values.get(), options);
    if (gw_ok(s))
        gw_on_done_with(s, reply, finish, owned.release(), {});
    else
        owned->fail(text_of(*gw_scope_error(s), call->timeout_ms));
}

void Agent::end_call() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (--calls_ == 0) calls_ended_.notify_all();
}

// On a thread of the library, which may not wait: torch completes the future elsewhere.
void Agent::finish(gw_scope *s, gw_future *reply, void *context) {
    std::shared_ptr<Call> call(static_cast<Call *>(context));
    if (const gw_error *error = gw_future_error(reply)) {
        std::string text = text_of(*error, call->timeout_ms);
        Threads::get().run_completion([call, text] { call->fail(text); });
        return;
    }
    try {
        auto parcel = std::make_shared<Parcel>(gw_list_items(gw_list_of(s, gw_wait(s, reply))));
        Threads::get().run_completion([call, parcel] { call->agent->complete(*call, *parcel); });
    } catch (const std::exception &e) {
        std::string text = rpc::makeRPCError(e.what(), rpc::RPCErrorType::UNKNOWN_ERROR);
        Threads::get().run_completion([call, text] { call->fail(text); });
    }
}

void Agent::complete(Call &call, Parcel &reply) {
    MessagePtr message;
    try {
        OwnScope s;
        message = reply.open(s);
    } catch (const std::exception &e) {
        return call.fail(rpc::makeRPCError(e.what(), rpc::RPCErrorType::UNKNOWN_ERROR));
    }
    if (message->type() == rpc::MessageType::EXCEPTION)
        return call.fail({ message->payload().begin(), message->payload().end() });
    Ending ending{ *this };
    auto storages = message->getStorages();
    call.result->markCompleted(std::move(message), std::move(storages));
}

// ---- Requests -------------------------------------------------------------------------------------
struct Agent::Request {
    Parcel parcel;
    rpc::worker_id_t caller;
    gw_future *reply;

    Request(gw_values values, int rank, gw_future *future)
        : parcel(values), caller(static_cast<rpc::worker_id_t>(rank)), reply(gw_retain(future)) {}
    ~Request() {
        gw_release(reply);
    }
};

static std::atomic<bool> is_registered;

bool Agent::is_served() {
    return is_registered;
}

void Agent::register_functions(gw_scope *s, gw_registry *r) {
    is_registered = true;
    gw_registry_add_function(s, r, FUNCTION, GW_INLINE, nullptr, receive);
}

// Requests that arrive before torch has set the agent wait for the start of the threads. A thread of torch records
// events for a profile only once (1.13), so requests with a profile get new threads.
gw_value Agent::receive(gw_scope *s, const gw_args *a) {
    try {
        gw_future *reply = gw_future_open(s);
        auto request = std::make_shared<Request>(gw_args_all(a), gw_arg_caller(a).rank, reply);
        auto job = [request] { serve_current(request); };
        if (request->parcel.type() == rpc::MessageType::RUN_WITH_PROFILING_REQ)
            Threads::get().run_alone(job);
        else
            Threads::get().run_request(job);
        return gw_value_of_future(reply);
    } catch (const std::exception &e) {
        gw_fail(s, GW_INVALID, "%s", e.what());
        return gw_none();
    }
}

// A request that has waited for a thread until torch has removed the agent is dropped: this worker has left the job.
void Agent::serve_current(const std::shared_ptr<Request> &request) {
    std::shared_ptr<rpc::RpcAgent> agent;
    try {
        agent = rpc::RpcAgent::getCurrentRpcAgent();
    } catch (const std::exception &) {
        return;
    }
    std::static_pointer_cast<Agent>(agent)->serve(request);
}

void Agent::serve(const std::shared_ptr<Request> &request) {
    served_++;
    FuturePtr result = process(*request);
    served_--;
    if (result->completed()) {
        reply(*request, *result);
        return;
    }
    replying_++;
    result->addCallback([self = shared_from_this(), request](rpc::JitFuture &f) {
        self->replying_--;
        self->reply(*request, f);
    });
}

FuturePtr Agent::process(Request &request) {
    try {
        MessagePtr message;
        {
            OwnScope s;
            TORCH_CHECK(s, "worker ", workerInfo_.name_, " leaves the job");
            message = request.parcel.open(s);
        }
        holders_.note(request.caller, *message);
        return (*cb_)(*message, {});
    } catch (const std::exception &e) {
        auto failed = c10::make_intrusive<rpc::JitFuture>(at::AnyClassType::get());
        failed->setError(std::current_exception());
        return failed;
    }
}

// If this worker has left the job, the caller has got an error from the library.
void Agent::reply(Request &request, rpc::JitFuture &result) {
    OwnScope s;
    if (!s) return;
    MessagePtr message = response_of(result, request.parcel.id());
    holders_.note(request.caller, *message);
    gw_value v;
    try {
        v = list_of(s, *message);
    } catch (const std::exception &e) {
        v = list_of(s, *rpc::createExceptionResponse(e, request.parcel.id()));
    }
    gw_future_set_with(s, request.reply, v);
}

// ---- Lost workers ---------------------------------------------------------------------------------
struct Agent::Watched {
    std::weak_ptr<Agent> agent;
    int rank;
    gw_future *lost;
};

void Agent::watch(gw_scope *s, int rank) {
    gw_worker worker = gw_rpc_worker_with(s, gw_to_rank(rank));
    gw_future *lost = gw_member_lost(s, &worker, 1);
    if (gw_ok(s))
        gw_on_done_with(s, lost, lose, new Watched{ weak_from_this(), rank, gw_retain(lost) }, {});
}

// Any error: if the others continue without this worker (FENCED), all of them are lost.
void Agent::lose(gw_scope *, gw_future *lost, void *context) {
    std::unique_ptr<Watched> watched(static_cast<Watched *>(context));
    auto agent = watched->agent.lock();
    const gw_error *error = gw_future_error(lost);
    if (agent && error) {
        std::string why = error->text;
        Threads::get().run_completion(
            [agent, rank = watched->rank, why] { agent->release_worker(rank, why); });
    }
    gw_release(watched->lost);
}

void Agent::release_worker(int rank, const std::string &why) {
    if (has_left_) return;
    try {
        holders_.release(static_cast<rpc::worker_id_t>(rank));
        py::gil_scoped_acquire gil;
        py::module_::import("gradwire.torch.gather").attr("on_lost")(workers_[rank].name_, why);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "gradwire: %s is lost: %s\n", workers_[rank].name_.c_str(), e.what());
    }
}

// ---- Life -----------------------------------------------------------------------------------------
static std::vector<rpc::WorkerInfo> infos_of(const std::vector<std::string> &names) {
    std::vector<rpc::WorkerInfo> out;
    for (const auto &name : names) out.emplace_back(name, static_cast<int64_t>(out.size()));
    return out;
}

Agent::Agent(std::vector<std::string> names, int rank, float timeout_s, int threads)
    : RpcAgent(rpc::WorkerInfo(names.at(rank), static_cast<int64_t>(rank)),
               std::make_unique<rpc::RequestCallbackImpl>(),
               milliseconds(milliseconds_of(timeout_s, milliseconds(0)))),
      workers_(infos_of(names)), thread_count_(threads) {}

Agent::~Agent() {
    if (is_running()) shutdown();
}

void Agent::startImpl() {
    Threads::get().start(thread_count_, core->enter_thread);
    OwnScope s;
    for (const auto &w : workers_)
        if (s && w.id_ != workerInfo_.id_) watch(s, w.id_);
}

const rpc::WorkerInfo &Agent::getWorkerInfo(const std::string &name) const {
    for (const auto &w : workers_)
        if (w.name_ == name) return w;
    TORCH_CHECK(false, "name:", workerInfo_.name_, ",rank:", workerInfo_.id_,
                " could not find destination ", name);
}

const rpc::WorkerInfo &Agent::getWorkerInfo(rpc::worker_id_t id) const {
    TORCH_CHECK(id >= 0 && static_cast<size_t>(id) < workers_.size(), "name:", workerInfo_.name_,
                ",rank:", workerInfo_.id_, " could not find destination ", id);
    return workers_[id];
}

std::vector<rpc::WorkerInfo> Agent::getWorkerInfos() const {
    return workers_;
}

static void check_signals() {
    py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() < 0) throw py::error_already_set();
}

// Calls of this worker end: later ones fail, as torch says.
void Agent::await_calls(float timeout_s) {
    auto end = std::chrono::steady_clock::now() +
               milliseconds(milliseconds_of(timeout_s, milliseconds(0)));
    std::unique_lock<std::mutex> lock(mutex_);
    while (!calls_ended_.wait_for(lock, SIGNAL_TIME, [this] { return calls_ == 0; })) {
        TORCH_CHECK(timeout_s <= 0 || std::chrono::steady_clock::now() < end,
                    "RPC shutdown: ", calls_, " calls of ", workerInfo_.name_,
                    " have not returned after ", timeout_s, " s");
        lock.unlock();
        check_signals();
        lock.lock();
    }
}

void Agent::leave(bool is_graceful, float timeout_s) {
    py::gil_scoped_acquire gil;
    py::module_::import("gradwire.torch.backend").attr("leave")(is_graceful, timeout_s);
}

void Agent::join(bool shutdown, float timeout_s) {
    WithoutGil without_gil;
    if (!shutdown) return sync();
    await_calls(timeout_s);
    has_left_ = true;
    leave(true, timeout_s);
}

static bool is_interrupted(void *) {
    py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() == 0) return false;
    PyErr_Clear();
    return true;
}

void Agent::sync() {
    WithoutGil without_gil;
    OwnScope s;
    TORCH_CHECK(s, "worker ", workerInfo_.name_, " has left the job");
    std::vector<gw_worker> all;
    for (const auto &w : workers_) all.push_back(gw_rpc_worker_with(s, gw_to_rank(w.id_)));
    gw_scope_set_interrupt(s, is_interrupted, nullptr);
    gw_rpc_barrier(s, all.data(), static_cast<int>(all.size()));
    TORCH_CHECK(gw_ok(s), gw_scope_error(s)->text);
}

void Agent::shutdownImpl() {
    WithoutGil without_gil;
    if (!has_left_.exchange(true)) {
        try {
            leave(false, 0);
        } catch (const std::exception &e) {
            std::fprintf(stderr, "gradwire: %s\n", e.what());
        }
    }
    Threads::get().stop(STOP_TIME);
}

// ---- Metrics --------------------------------------------------------------------------------------
void Agent::addGilWaitTime(const std::chrono::microseconds time) {
    gil_wait_us_ += time.count();
    gil_waits_++;
}

std::unordered_map<std::string, std::string> Agent::getMetrics() {
    WithoutGil without_gil;
    Threads::Counts threads = Threads::get().count();
    std::unordered_map<std::string, std::string> out = {
        { "agent.thread_pool_size", std::to_string(threads.threads) },
        { "agent.num_idle_threads", std::to_string(threads.idle) },
        { "agent.server_active_calls", std::to_string(served_ + replying_) },
        { "agent.server_active_async_calls", std::to_string(replying_) },
        { "gradwire.waiting_jobs", std::to_string(threads.waiting_jobs) },
    };
    {
        std::lock_guard<std::mutex> lock(mutex_);
        out["agent.client_active_calls"] = std::to_string(calls_);
    }
    if (isGILProfilingEnabled())
        out["agent.gil_average_wait_time_us"] =
            std::to_string(gil_wait_us_ / std::max<int64_t>(gil_waits_, 1));
    OwnScope s;
    if (!s) return out;
    gw_rpc_stats stats = gw_rpc_get_stats(s);
    out["gradwire.calls_made"] = std::to_string(stats.calls_made);
    out["gradwire.calls_served"] = std::to_string(stats.calls_served);
    out["gradwire.bytes_sent"] = std::to_string(stats.bytes_sent);
    out["gradwire.bytes_received"] = std::to_string(stats.bytes_received);
    return out;
}
