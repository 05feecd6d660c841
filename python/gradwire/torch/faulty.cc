#include "faulty.h"

#include <thread>

#include "threads.h"

namespace {

void sleep_for(float seconds) {
    std::this_thread::sleep_for(std::chrono::duration<float>(seconds));
}

void pass_on(rpc::JitFuture &from, rpc::JitFuture &to) {
    if (from.hasError())
        to.setErrorIfNeeded(from.exception_ptr());
    else
        to.markCompleted(from.value(), from.storages());
}

std::exception_ptr failure(const std::string &text, rpc::RPCErrorType type) {
    return std::make_exception_ptr(std::runtime_error(rpc::makeRPCError(text, type)));
}

}  // namespace

FaultyAgent::FaultyAgent(std::vector<std::string> names, int rank, float timeout_s, int threads,
                         int fail_count, std::set<int> failing, std::map<int, float> delays)
    : Agent(std::move(names), rank, timeout_s, threads), fail_count_(fail_count),
      failing_(std::move(failing)), delays_(std::move(delays)) {}

bool FaultyAgent::must_fail(const rpc::Message &message) {
    if (!failing_.count(message.type())) return false;
    std::lock_guard<std::mutex> lock(mutex_);
    return attempts_[message.payload()]++ < fail_count_;
}

FuturePtr FaultyAgent::send(const rpc::WorkerInfo &to, MessagePtr message, const float timeout_s,
                            const rpc::DeviceMap &device_map) {
    if (must_fail(*message)) {
        auto failed = c10::make_intrusive<rpc::JitFuture>(at::AnyClassType::get());
        failed->setError(
            failure("Send attempt failed intentionally", rpc::RPCErrorType::INTENTIONAL_FAILURE));
        return failed;
    }
    auto delay = delays_.find(message->type());
    if (delay == delays_.end()) return Agent::send(to, std::move(message), timeout_s, device_map);
    return send_later(to, std::move(message), timeout_s, delay->second);
}

FuturePtr FaultyAgent::send_later(const rpc::WorkerInfo &to, MessagePtr message, float timeout_s,
                                  float delay_s) {
    auto result = c10::make_intrusive<rpc::JitFuture>(at::AnyClassType::get());
    float limit_s = timeout_s == rpc::kUnsetRpcTimeout
                        ? getRpcTimeout().count() / rpc::kSecToMsConversion
                        : timeout_s;
    auto self = std::static_pointer_cast<FaultyAgent>(shared_from_this());
    Threads::get().run_alone([self, id = to.id_, message, limit_s, delay_s, result]() mutable {
        bool expires = limit_s > 0 && delay_s >= limit_s;
        sleep_for(expires ? limit_s : delay_s);
        if (expires) {
            result->setErrorIfNeeded(failure("RPC ran for more than set timeout (" +
                                                 std::to_string(static_cast<int>(limit_s * 1000)) +
                                                 " ms) and will now be marked with an error",
                                             rpc::RPCErrorType::TIMEOUT));
            sleep_for(delay_s - limit_s);
        }
        auto reply = self->Agent::send(self->getWorkerInfo(id), std::move(message),
                                       expires || limit_s == 0 ? limit_s : limit_s - delay_s, {});
        if (!expires) reply->addCallback([result](rpc::JitFuture &f) { pass_on(f, *result); });
    });
    return result;
}
